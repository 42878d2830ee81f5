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
	if !l.originAllowed(r) {
		l.stats.refused.Add(1)
		errOrigin.WriteHTTP(w)
		return
	}
	codec, ok := offered(r)
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
	up := ws.HTTPUpgrader{
		Timeout:  l.cfg.HandshakeTimeout,
		Protocol: func(name string) bool { return name == codec.Name() },
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

// offered picks the client's first subprotocol that we know; JSON when it offers none.
func offered(r *http.Request) (frame.Codec, bool) {
	none := true
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		for name := range strings.SplitSeq(line, ",") {
			switch strings.TrimSpace(name) {
			case frame.SubprotocolJSON:
				return frame.JSON, true
			case frame.SubprotocolELR2:
				return frame.ELR2, true
			case "":
			default:
				none = false
			}
		}
	}
	return frame.JSON, none
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
