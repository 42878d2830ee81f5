package ticketing

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
)

const (
	maxBodyBytes  = 64 << 10
	httpTimeout   = 10 * time.Second // a whole request, and a whole answer
	httpIdle      = 60 * time.Second
	maxHeaderSize = 16 << 10
	jwksMaxAge    = "public, max-age=60"
)

// web is the HTTP side.
type web struct {
	desk   *desk
	jwks   func() []byte
	token  [sha256.Size]byte
	open   bool // an admin token is configured
	meters *meters
}

func newWeb(d *desk, jwks func() []byte, adminToken string, m *meters) *web {
	return &web{desk: d, jwks: jwks, token: sha256.Sum256([]byte(adminToken)), open: adminToken != "", meters: m}
}

func (s *web) server() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/tickets", s.admin(s.tickets))
	mux.HandleFunc("GET /.well-known/jwks.json", s.keys)
	return &http.Server{
		Handler: fault.Mux(mux), ReadHeaderTimeout: httpTimeout, ReadTimeout: httpTimeout, WriteTimeout: httpTimeout,
		IdleTimeout: httpIdle, MaxHeaderBytes: maxHeaderSize,
	}
}

// admin lets a call through that presents the admin token. Digests are compared, so that neither
// content nor length shows in the time taken.
func (s *web) admin(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		sum := sha256.Sum256([]byte(token))
		same := subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1
		if !s.open || !strings.EqualFold(scheme, "Bearer") || !same {
			w.Header().Set("WWW-Authenticate", "Bearer")
			fault.ErrUnauthenticated.WriteHTTP(w)
			return
		}
		next(w, r)
	}
}

func (s *web) tickets(w http.ResponseWriter, r *http.Request) {
	reply, err := s.issue(w, r)
	if err != nil {
		f := fault.From(err)
		s.meters.issued(r.Context(), string(f.Code))
		f.WriteHTTP(w)
		return
	}
	s.meters.issued(r.Context(), "ok")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(reply) // a client that is gone: nobody to tell
}

func (s *web) issue(w http.ResponseWriter, r *http.Request) (api.TicketReply, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	if err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return api.TicketReply{}, fault.ErrTooLarge
		}
		return api.TicketReply{}, fault.Wrap(fault.InvalidRequest, "body could not be read", err)
	}
	var req api.TicketRequest
	if err := api.Decode(body, &req); err != nil {
		return api.TicketReply{}, err
	}
	if err := req.Validate(); err != nil {
		return api.TicketReply{}, err
	}
	return s.desk.login(&req, time.Now())
}

func (s *web) keys(w http.ResponseWriter, _ *http.Request) {
	jwks := s.jwks()
	if jwks == nil {
		fault.ErrUnavailable.WriteHTTP(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", jwksMaxAge)
	_, _ = w.Write(jwks)
}
