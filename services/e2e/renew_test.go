package e2e

import (
	"encoding/json"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/services/e2e/lab"
)

// TestRenewWithTicketingAway: a renew that nobody answers is UNAVAILABLE in time, and good for
// another try with the same ticket.
func TestRenewWithTicketingAway(t *testing.T) {
	const limit = 2 * time.Second
	s := lab.StartSuite(t, lab.Options{Env: []string{"GATEWAY_REQUEST_TIMEOUT=" + limit.String()}})
	b, id := s.Backend(t), newUser()
	c := lab.Dial(t, s.Gateways[0].GatewayURL(), lab.JSON)
	ticket := c.Login(b.Ticket(id, dev("phone")), nil).Reconnect.Ticket
	renew := func() lab.Message { return c.Request(3, map[string]string{"ticket": ticket}) }

	s.Ticketings[0].Signal(syscall.SIGSTOP) // it hangs: nobody knows what it did
	start := time.Now()
	if m := renew(); m.Code() != "UNAVAILABLE" {
		t.Errorf("renew while ticketing hangs: %s %s", m.Kind, m.Payload)
	}
	t.Logf("answered after %s of %s", time.Since(start).Round(time.Millisecond), limit)
	s.Ticketings[0].Signal(syscall.SIGCONT)

	var next struct {
		Ticket string `json:"ticket"`
	}
	lab.Eventually(t, 30*time.Second, func() error {
		m := renew()
		if m.Code() == "UNAVAILABLE" { // it has to come back to NATS first
			return errors.New("ticketing is still away")
		}
		if err := json.Unmarshal(m.Payload, &next); err != nil || next.Ticket == "" {
			t.Fatalf("renew tried again: %s %s", m.Kind, m.Payload)
		}
		return nil
	})
	if m := renew(); m.Code() != "UNAUTHENTICATED" {
		t.Errorf("renew with a ticket that is used up: %s %s", m.Kind, m.Payload)
	}
	ticket = next.Ticket
	if m := renew(); m.Kind != "response" {
		t.Errorf("renew with the new ticket: %s %s", m.Kind, m.Payload)
	}
}
