package ticketing

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/ticket"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
	"github.com/switchyard-io/switchyard/ticketing/internal/ledger"
)

// maxWork bounds the work on one request, be its deadline far away or none.
const maxWork = 5 * time.Second

// redeemer uses tickets up and gives them back (I5).
type redeemer struct {
	verifier *ticket.Verifier
	ledger   *ledger.Ledger
	desk     *desk
	meters   *meters
	log      *slog.Logger
}

// redeem verifies the ticket once more (a gateway does not know the configured lives, and may
// have been in a queue since), signs the reconnect ticket, and only then uses the ticket up: what
// fails before the last step has consumed nothing.
func (r *redeemer) redeem(ctx context.Context, req *wirepb.RedeemRequest, now time.Time) *wirepb.RedeemReply {
	reply := func(s wirepb.RedeemStatus, outcome string) *wirepb.RedeemReply {
		r.meters.redeemed(ctx, outcome)
		return &wirepb.RedeemReply{Status: s}
	}
	session, err := identity.SessionIDFromBytes(req.GetSessionId())
	if err != nil || session.IsZero() {
		return reply(wirepb.RedeemStatus_REDEEM_STATUS_REFUSED, "malformed")
	}
	claims, err := r.verifier.Verify(req.GetTicket(), now)
	if err != nil {
		return reply(wirepb.RedeemStatus_REDEEM_STATUS_REFUSED, reason(err))
	}
	next, err := r.desk.reconnect(claims, session, wireDevice(req), now)
	if err != nil {
		r.log.ErrorContext(ctx, "reconnect ticket not signed", "error", err)
		return reply(wirepb.RedeemStatus_REDEEM_STATUS_UNAVAILABLE, "unavailable")
	}
	outcome, err := r.ledger.Redeem(ctx, claims.ID, session, claims.ExpiresAt, now)
	switch {
	case err != nil:
		r.log.WarnContext(ctx, "redeem not settled", "error", err)
		return reply(wirepb.RedeemStatus_REDEEM_STATUS_UNAVAILABLE, "unavailable")
	case outcome == ledger.Used:
		return reply(wirepb.RedeemStatus_REDEEM_STATUS_USED, "used")
	case outcome == ledger.Released:
		return reply(wirepb.RedeemStatus_REDEEM_STATUS_REFUSED, "released")
	}
	out := reply(wirepb.RedeemStatus_REDEEM_STATUS_OK, "ok")
	out.ReconnectTicket, out.ReconnectExpiresInSeconds = next, seconds(r.desk.reconnectTTL)
	return out
}

// release gives a ticket back that a session had redeemed which then failed.
func (r *redeemer) release(ctx context.Context, req *wirepb.ReleaseRequest) *wirepb.ReleaseReply {
	session, err := identity.SessionIDFromBytes(req.GetSessionId())
	if err != nil || session.IsZero() || !identity.ValidNode(req.GetTicketId()) {
		r.meters.released(ctx, "malformed")
		return &wirepb.ReleaseReply{Status: wirepb.RedeemStatus_REDEEM_STATUS_REFUSED}
	}
	outcome, err := r.ledger.Release(ctx, req.GetTicketId(), session)
	switch {
	case err != nil:
		r.log.WarnContext(ctx, "release not settled", "error", err)
		r.meters.released(ctx, "unavailable")
		return &wirepb.ReleaseReply{Status: wirepb.RedeemStatus_REDEEM_STATUS_UNAVAILABLE}
	case outcome == ledger.Used:
		r.meters.released(ctx, "used")
		return &wirepb.ReleaseReply{Status: wirepb.RedeemStatus_REDEEM_STATUS_USED}
	}
	r.meters.released(ctx, "ok")
	return &wirepb.ReleaseReply{Status: wirepb.RedeemStatus_REDEEM_STATUS_OK}
}

func wireDevice(req *wirepb.RedeemRequest) identity.Device {
	d := identity.Device{ID: req.GetDeviceId(), Flag: req.GetDeviceFlag()}
	if req.GetDeviceLevel() == wirepb.Level_LEVEL_MASTER {
		d.Level = identity.LevelMaster
	}
	return d
}

func reason(err error) string {
	var r *ticket.Refusal
	if errors.As(err, &r) {
		return r.Reason
	}
	return "refused"
}
