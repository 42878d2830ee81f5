// Package client is the Go client of a Switchyard gateway (PROTOCOL.md section 2), for both
// subprotocols. It is made to be cheap, so that one process can hold tens of thousands of
// connections: one goroutine a connection, no buffer while nothing arrives, callbacks instead of
// channels.
//
//	c, err := client.Dial(ctx, "ws://127.0.0.1:7000/v1/connect", client.Options{
//		OnPush: func(c *client.Client, p client.Push) { ... },
//	})
//	session, err := c.Authenticate(ctx, client.Login{Ticket: ticket})
//	reply, err := c.Request(ctx, 200, []byte(`{"hello":"world"}`))
//
// Heartbeats are sent and answered by the client. A Client is safe for concurrent use; callbacks
// of one client never overlap, and must not wait for that client's own replies.
package client
