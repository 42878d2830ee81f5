package ticketing

import (
	"time"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

// firstGeneration is the version of every account whose generation was never raised.
const firstGeneration = 1

// signers gives the signer of the moment, nil while the keys are not open.
type signers interface{ Signer() *ticket.Signer }

// desk makes tickets. It holds no state and does no I/O.
type desk struct {
	keys                   signers
	loginTTL, reconnectTTL time.Duration // whole seconds
}

// login signs a login ticket for the identity that the request names. The request was validated.
func (d *desk) login(r *api.TicketRequest, now time.Time) (api.TicketReply, error) {
	c := ticket.Claims{Purpose: ticket.Login, Identity: r.Identity, Groups: r.Groups}
	if c.Identity.Generation == 0 {
		c.Identity.Generation = firstGeneration
	}
	if r.Device != nil {
		c.Device = &ticket.Device{ID: r.Device.ID, Flag: r.Device.Flag, Level: r.Device.Level}
	}
	if err := ticket.ValidGroups(c.Groups); err != nil {
		return api.TicketReply{}, fault.Wrap(fault.InvalidRequest, "groups has a malformed glob", err)
	}
	t, err := d.sign(c, d.loginTTL, now)
	return api.TicketReply{Ticket: t, ExpiresInSeconds: seconds(d.loginTTL)}, err
}

// reconnect signs the ticket with which a session that used up c comes back: the same identity,
// grants and lineage, bound to the session's device.
func (d *desk) reconnect(c ticket.Claims, session identity.SessionID, device identity.Device, now time.Time) (string, error) {
	return d.sign(ticket.Claims{
		Purpose:  ticket.Reconnect,
		Identity: c.Identity,
		Device:   &ticket.Device{ID: device.ID, Flag: device.Flag, Level: device.Level},
		Groups:   c.Groups,
		Lineage:  c.LineageFor(session),
	}, d.reconnectTTL, now)
}

func (d *desk) sign(c ticket.Claims, ttl time.Duration, now time.Time) (string, error) {
	s := d.keys.Signer()
	if s == nil {
		return "", fault.ErrUnavailable
	}
	c.ID = ticket.NewID()
	c.IssuedAt = now.Truncate(time.Second) // whole seconds: life is exactly ttl, never longer
	c.ExpiresAt = c.IssuedAt.Add(ttl)
	t, err := s.Sign(c)
	if err != nil {
		return "", fault.Wrap(fault.Internal, "ticket could not be signed", err)
	}
	return t, nil
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
