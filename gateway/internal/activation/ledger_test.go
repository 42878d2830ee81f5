package activation_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/gateway/internal/activation"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natstest"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// instance is ticketing's part in a test: it answers each redeem with the next status; 0 is silence.
func instance(t *testing.T, nc *nats.Conn, statuses ...wirepb.RedeemStatus) chan *wirepb.RedeemRequest {
	t.Helper()
	seen := make(chan *wirepb.RedeemRequest, 16)
	_, err := nc.QueueSubscribe(subject.TicketRedeem, subject.QueueTicketing, func(m *nats.Msg) {
		req := &wirepb.RedeemRequest{}
		if err := req.UnmarshalVT(m.Data); err != nil {
			t.Error(err)
		}
		seen <- req
		status := statuses[0]
		if len(statuses) > 1 {
			statuses = statuses[1:]
		}
		if status == 0 {
			return
		}
		data, _ := (&wirepb.RedeemReply{Status: status, ReconnectTicket: "r", ReconnectExpiresInSeconds: 9}).MarshalVT()
		_ = m.Respond(data)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return seen
}

func TestLedger(t *testing.T) {
	const (
		ok, used, refused, down = wirepb.RedeemStatus_REDEEM_STATUS_OK, wirepb.RedeemStatus_REDEEM_STATUS_USED,
			wirepb.RedeemStatus_REDEEM_STATUS_REFUSED, wirepb.RedeemStatus_REDEEM_STATUS_UNAVAILABLE
		silent = wirepb.RedeemStatus(0)
	)
	url := natstest.Server(t).URL()
	for _, c := range []struct {
		name     string
		statuses []wirepb.RedeemStatus
		within   time.Duration
		want     error // nil: redeemed
		touched  bool
	}{
		{"redeemed", []wirepb.RedeemStatus{ok}, time.Second, nil, true},
		{"used", []wirepb.RedeemStatus{used}, time.Second, activation.ErrUsed, true},
		{"refused", []wirepb.RedeemStatus{refused}, time.Second, fault.ErrUnauthenticated, true},
		{"down for a moment", []wirepb.RedeemStatus{down, ok}, 2 * time.Second, nil, true},
		{"an instance hangs", []wirepb.RedeemStatus{silent, ok}, 3 * time.Second, nil, true},
		{"down", []wirepb.RedeemStatus{down}, 300 * time.Millisecond, fault.ErrUnavailable, true},
		{"silent", []wirepb.RedeemStatus{silent}, 300 * time.Millisecond, fault.ErrUnavailable, true},
		{"nobody there", nil, 300 * time.Millisecond, activation.ErrUntouched, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen chan *wirepb.RedeemRequest
			if c.statuses != nil {
				nc := natstest.Conn(t, url)
				defer nc.Close()
				seen = instance(t, nc, c.statuses...)
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.within)
			defer cancel()
			id := identity.NewSessionID(3)
			r, err := activation.NewTicketingLedger(natstest.Conn(t, url)).Redeem(ctx, "t", id, identity.Device{ID: "d", Flag: "app", Level: identity.LevelMaster})
			if !errors.Is(err, c.want) || c.want == nil && r.Ticket != "r" {
				t.Fatalf("%+v %v", r, err)
			}
			if errors.Is(err, activation.ErrUntouched) == c.touched || errors.Is(err, activation.ErrUsed) != errors.Is(c.want, activation.ErrUsed) {
				t.Fatalf("taken for another failure: %v", err)
			}
			if seen != nil {
				req := <-seen
				if req.Ticket != "t" || string(req.SessionId) != string(id[:]) || req.DeviceLevel != wirepb.Level_LEVEL_MASTER || req.DeadlineMs == 0 {
					t.Fatalf("asked %v", req)
				}
			}
		})
	}
}
