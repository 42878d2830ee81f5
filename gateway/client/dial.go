package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"

	"github.com/gobwas/ws"

	"github.com/switchyard-io/switchyard/gateway/internal/frame"
	"github.com/switchyard-io/switchyard/shared/fault"
)

// maxRefusal bounds what is read of an HTTP refusal, in bytes.
const maxRefusal = 4096

// handshakeBuffer is enough for an upgrade answer with some headers; longer lines fail.
const handshakeBuffer = 1024

// Dial connects. The URL is ws://host:port/path, or tcp://host:port for the raw ELR2 listener.
// A refused upgrade is the *fault.Error that the gateway gave. Callbacks may come before Dial
// returns. Close the client in the end: its goroutine lives until then.
func Dial(ctx context.Context, address string, o Options) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	c := &Client{opts: o, stream: u.Scheme == "tcp"}
	if c.opts.MaxMessage <= 0 {
		c.opts.MaxMessage = defaultMaxMessage
	}
	if o.Subprotocol == ELR2 || c.stream {
		c.codec = frame.ELR2
	}
	var early []byte
	switch u.Scheme {
	case "tcp":
		var sock net.Conn
		if sock, err = c.netDial(ctx, "tcp", u.Host); err == nil {
			c.sock = sock.(*net.TCPConn)
		}
	case "ws":
		early, err = c.upgrade(ctx, address)
	default:
		err = fmt.Errorf("client: scheme %q is not supported: ws or tcp", u.Scheme)
	}
	if err != nil {
		return nil, err
	}
	if c.raw, err = c.sock.SyscallConn(); err != nil {
		_ = c.sock.Close()
		return nil, err
	}
	go c.run(early) // a fresh stack, not grown by the handshake
	return c, nil
}

func (c *Client) netDial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	if c.opts.LocalAddr != nil {
		d.LocalAddr = &net.TCPAddr{IP: c.opts.LocalAddr}
		d.Control = bindLate
	}
	return d.DialContext(ctx, network, addr)
}

// upgrade does the WebSocket handshake and returns the bytes that came behind it.
func (c *Client) upgrade(ctx context.Context, address string) ([]byte, error) {
	var refusal error
	d := ws.Dialer{
		NetDial:        c.netDial,
		ReadBufferSize: handshakeBuffer,
		Protocols:      []string{c.codec.Name()},
		OnStatusError:  func(_ int, _ []byte, resp io.Reader) { refusal = readRefusal(resp) },
	}
	if c.opts.Origin != "" {
		d.Header = ws.HandshakeHeaderHTTP{"Origin": []string{c.opts.Origin}}
	}
	conn, br, hs, err := d.Dial(ctx, address)
	if err != nil {
		return nil, errors.Join(refusal, err)
	}
	var early []byte
	if br != nil {
		b, _ := br.Peek(br.Buffered())
		early = slices.Clone(b)
		ws.PutReader(br)
	}
	sock, ok := conn.(*net.TCPConn)
	if !ok || hs.Protocol != c.codec.Name() {
		_ = conn.Close()
		return nil, errors.Join(ErrProtocol, fmt.Errorf("subprotocol %q", hs.Protocol))
	}
	c.sock = sock
	return early, nil
}

func readRefusal(resp io.Reader) error {
	r, err := http.ReadResponse(bufio.NewReader(resp), nil)
	if err != nil {
		return nil
	}
	defer func() { _ = r.Body.Close() }()
	var b fault.Body
	if json.NewDecoder(io.LimitReader(r.Body, maxRefusal)).Decode(&b) != nil || b.Code == "" {
		return nil
	}
	return b.Err()
}
