package activation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/gateway/internal/session"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

// ErrUsed says that another session has used the ticket. A client sees it as any other fault of
// a ticket.
var ErrUsed = fmt.Errorf("ticket is used: %w", fault.ErrUnauthenticated)

// ErrUntouched says that no instance of ticketing can have seen the request.
var ErrUntouched = fmt.Errorf("ticketing was not reached: %w", fault.ErrUnavailable)

const (
	// ledgerAttempt is how long one instance of ticketing may take; then another is asked.
	ledgerAttempt = time.Second
	// ledgerPause is between two attempts when none answers at all.
	ledgerPause = 100 * time.Millisecond
)

// TicketingLedger is ticketing's ledger, asked over NATS.
type TicketingLedger struct{ nc *nats.Conn }

var _ Ledger = (*TicketingLedger)(nil)

// NewTicketingLedger asks over nc.
func NewTicketingLedger(nc *nats.Conn) *TicketingLedger { return &TicketingLedger{nc} }

// Redeem implements Ledger. It asks again until ctx ends: a redeem for the same session is
// answered alike.
func (l *TicketingLedger) Redeem(ctx context.Context, token string, id identity.SessionID, d identity.Device) (session.Reconnect, error) {
	req := &wirepb.RedeemRequest{Ticket: token, SessionId: id[:], DeviceId: d.ID, DeviceFlag: d.Flag, DeviceLevel: wirepb.Level_LEVEL_SLAVE}
	if d.Level == identity.LevelMaster {
		req.DeviceLevel = wirepb.Level_LEVEL_MASTER
	}
	var reply wirepb.RedeemReply
	err := l.ask(ctx, subject.TicketRedeem, func(deadlineMS int64) ([]byte, error) {
		req.DeadlineMs = deadlineMS
		return req.MarshalVT()
	}, func(b []byte) (wirepb.RedeemStatus, error) {
		reply = wirepb.RedeemReply{}
		err := reply.UnmarshalVT(b)
		return reply.Status, err
	})
	return session.Reconnect{Ticket: reply.ReconnectTicket, ExpiresInSeconds: reply.ReconnectExpiresInSeconds}, err
}

// Release implements Ledger.
func (l *TicketingLedger) Release(ctx context.Context, ticketID string, id identity.SessionID) error {
	req := &wirepb.ReleaseRequest{TicketId: ticketID, SessionId: id[:]}
	return l.ask(ctx, subject.TicketRelease, func(deadlineMS int64) ([]byte, error) {
		req.DeadlineMs = deadlineMS
		return req.MarshalVT()
	}, func(b []byte) (wirepb.RedeemStatus, error) {
		var reply wirepb.ReleaseReply
		err := reply.UnmarshalVT(b)
		return reply.Status, err
	})
}

// ask calls ticketing until an instance has an answer or ctx ends. An instance that hangs costs
// one attempt.
func (l *TicketingLedger) ask(ctx context.Context, subj string, encode func(int64) ([]byte, error), decode func([]byte) (wirepb.RedeemStatus, error)) error {
	reached := false
	for {
		status, err := l.attempt(ctx, subj, encode, decode)
		if !errors.Is(err, nats.ErrNoResponders) { // a lost connection may have carried it
			reached = true
		}
		switch status {
		case wirepb.RedeemStatus_REDEEM_STATUS_OK:
			return nil
		case wirepb.RedeemStatus_REDEEM_STATUS_USED:
			return ErrUsed
		case wirepb.RedeemStatus_REDEEM_STATUS_REFUSED:
			return fault.ErrUnauthenticated
		case wirepb.RedeemStatus_REDEEM_STATUS_UNAVAILABLE:
			err = errors.New("ticketing is unavailable")
		}
		pause := time.NewTimer(ledgerPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			if !reached {
				return fmt.Errorf("%w: %w", ErrUntouched, err)
			}
			return fault.Wrap(fault.Unavailable, "temporarily unavailable", errors.Join(err, ctx.Err()))
		}
	}
}

func (l *TicketingLedger) attempt(ctx context.Context, subj string, encode func(int64) ([]byte, error), decode func([]byte) (wirepb.RedeemStatus, error)) (wirepb.RedeemStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, ledgerAttempt)
	defer cancel()
	deadline, _ := ctx.Deadline()
	data, err := encode(deadline.UnixMilli())
	if err != nil {
		return 0, fmt.Errorf("encode: %w", err)
	}
	msg, err := natsconn.Request(ctx, l.nc, subj, data)
	if err != nil {
		return 0, err
	}
	if e := fault.FromMsg(msg); e != nil {
		return 0, e
	}
	return decode(msg.Data)
}
