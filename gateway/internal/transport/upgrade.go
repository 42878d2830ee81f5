package transport

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gobwas/ws"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
)

var (
	errOrigin      = fault.New(fault.Forbidden, "origin not allowed")
	errSubprotocol = fault.New(fault.InvalidRequest, "none of the offered subprotocols is known")
)

// upgrade turns a request in a WebSocket connection. Refusals before the upgrade are HTTP errors
// with the usual body.
func (l *Listener) upgrade(w http.ResponseWriter, r *http.Request) {
	if !handshake(w, r) {
		l.stats.refused.Add(1)
		return
	}
	if !l.originAllowed(r) {
		l.stats.refused.Add(1)
		l.logOrigin(r)
		errOrigin.WriteHTTP(w)
		return
	}
	codec, named, ok := offered(r)
	if !ok {
		l.stats.refused.Add(1)
		errSubprotocol.WriteHTTP(w)
		return
	}
	ip := remoteIP(r.RemoteAddr)
	if refusal := l.admit(ip); refusal != nil {
		refusal.WriteHTTP(w)
		return
	}
	up := ws.HTTPUpgrader{Timeout: l.cfg.HandshakeTimeout}
	if named {
		up.Header = http.Header{headerSubprotocol: {codec.Name()}}
	}
	sock, rw, _, err := up.Upgrade(r, w)
	tcp, isTCP := sock.(*net.TCPConn)
	if err != nil || !isTCP {
		l.stats.refused.Add(1)
		l.release(ip)
		if sock != nil {
			_ = sock.Close()
		}
		return
	}
	early, _ := rw.Peek(rw.Reader.Buffered())
	if err := l.open(tcp, ip, codec, false, slices.Clone(early)); err != nil {
		l.log.Debug("connection lost at once", "listener", ListenerWebSocket, "error", err)
	}
}

// The handshake of RFC 6455, as net/http spells its headers.
const (
	headerSubprotocol = "Sec-Websocket-Protocol"
	headerVersion     = "Sec-Websocket-Version"
	headerKey         = "Sec-Websocket-Key"
	version           = "13"
	keyBytes          = 24 // 16 random bytes in base64
)

// handshake checks that the request asks for a WebSocket connection, and refuses it if not. What
// it lets pass the upgrader accepts.
func handshake(w http.ResponseWriter, r *http.Request) bool {
	refuse := func(status int, message string) bool {
		fault.New(fault.InvalidRequest, message).WriteHTTPStatus(w, status)
		return false
	}
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		return refuse(http.StatusMethodNotAllowed, "method not allowed")
	case !r.ProtoAtLeast(1, 1):
		return refuse(http.StatusHTTPVersionNotSupported, "HTTP/1.1 is needed")
	case !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") || !hasToken(r.Header["Connection"], "upgrade"):
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		return refuse(http.StatusUpgradeRequired, "a WebSocket upgrade is needed")
	case r.Host == "":
		return refuse(http.StatusBadRequest, "Host is needed")
	case r.Header.Get(headerVersion) != version:
		w.Header().Set(headerVersion, version)
		return refuse(http.StatusUpgradeRequired, "Sec-WebSocket-Version must be 13")
	case len(r.Header.Get(headerKey)) != keyBytes:
		return refuse(http.StatusBadRequest, "Sec-WebSocket-Key is malformed")
	}
	r.Header.Set("Connection", "Upgrade") // the upgrader reads one line only, and more strictly
	return true
}

// hasToken reports whether a comma list in the header's lines has the token, in any case.
func hasToken(lines []string, token string) bool {
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(name), token) {
				return true
			}
		}
	}
	return false
}

// offered picks the client's first subprotocol that we know, and tells whether it was named: JSON
// when the client offers none. It is not ok when none of those offered is known.
func offered(r *http.Request) (codec frame.Codec, named, ok bool) {
	none := true
	for _, line := range r.Header.Values(headerSubprotocol) {
		for name := range strings.SplitSeq(line, ",") {
			switch strings.TrimSpace(name) {
			case frame.SubprotocolJSON:
				return frame.JSON, true, true
			case frame.SubprotocolELR2:
				return frame.ELR2, true, true
			case "":
			default:
				none = false
			}
		}
	}
	return frame.JSON, false, none
}

// originAllowed lets in requests without an Origin (no browser, so no page that could ride on a
// user's trust), and those of the allowed origins or else of the request's own host.
func (l *Listener) originAllowed(r *http.Request) bool {
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return true
	}
	if len(values) > 1 {
		return false
	}
	if len(l.origins) > 0 {
		return l.origins["*"] || l.origins[strings.ToLower(values[0])]
	}
	u, err := url.Parse(values[0])
	return err == nil && u.Host != "" && sameHost(u.Scheme, u.Host, r.Host)
}

// logOrigin tells now and then which origins are refused: most often one that was forgotten in the
// configuration.
func (l *Listener) logOrigin(r *http.Request) {
	l.refusedOrigins.Do(func() {
		origin := strings.Join(r.Header.Values("Origin"), ", ")
		l.log.Info("origin refused", "origin", origin[:min(len(origin), maxLoggedOrigin)])
	})
}

func originSet(allowed []string) map[string]bool {
	set := make(map[string]bool, len(allowed))
	for _, o := range allowed {
		if o = strings.ToLower(strings.TrimRight(strings.TrimSpace(o), "/")); o != "" {
			set[o] = true
		}
	}
	return set
}

// sameHost compares an origin's host with a request's; a browser leaves out the scheme's own port.
func sameHost(scheme, origin, host string) bool {
	if strings.EqualFold(origin, host) {
		return true
	}
	port := map[string]string{"http": ":80", "https": ":443"}[strings.ToLower(scheme)]
	return port != "" && strings.EqualFold(strings.TrimSuffix(origin, port), strings.TrimSuffix(host, port))
}
