package gateway

import (
	"net/http"
	"net/netip"

	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/gateway/internal/transport"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// edge is a session as the transport's events reach it. It is the session itself under another
// name: a connection costs nothing more.
type edge session.Session

func (e *edge) Message(_ *transport.Conn, msg []byte) { (*session.Session)(e).Message(msg) }
func (e *edge) Active(*transport.Conn)                { (*session.Session)(e).Active() }

// Closed passes on who ended the connection, and with which code. The client's own words are not
// passed on: they are anybody's.
func (e *edge) Closed(_ *transport.Conn, cause transport.Cause) {
	s := (*session.Session)(e)
	switch {
	case cause.Origin == transport.OriginLocal:
		s.Closed(cause.Code)
	case cause.Origin == transport.OriginBroken:
		s.Left(session.StatusBroken, "transport broken")
	case cause.PeerCode == 0:
		s.Left(session.StatusNone, "client closed")
	default:
		s.Left(fault.CloseCode(cause.PeerCode), "client closed")
	}
}

// refuse turns new connections away while there is nothing for them here.
func (g *Gateway) refuse(netip.Addr) *fault.Error {
	if g.refusing.Load() {
		return fault.ErrUnavailable.After(g.cfg.DrainTimeout)
	}
	return nil
}

// page serves what is neither a connect nor an upgrade.
func (g *Gateway) page(w http.ResponseWriter, r *http.Request) {
	if h := g.pages.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	fault.ErrNotFound.WriteHTTP(w)
}

// SetPages has h serve every path of the WebSocket listener that is no connect: a demo page, for
// example. It may be called at any time; nil: 404.
func (g *Gateway) SetPages(h http.Handler) {
	if h == nil {
		g.pages.Store(nil)
		return
	}
	g.pages.Store(&h)
}
