package operator

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/subject"
)

func (t *tool) ticket() *cobra.Command {
	var account, device, flag, level string
	var generation int64
	var groups []string
	c := &cobra.Command{
		Use:   "ticket REGION/REALM/USER",
		Short: "Make a login ticket for a user",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, a []string) error {
			uid, err := parseUID(a[0])
			if err != nil {
				return err
			}
			req := api.TicketRequest{Groups: groups, Identity: identityOf(uid, account, generation)}
			if device != "" || flag != "" || level != "" {
				lvl, err := identity.ParseLevel(level)
				if err != nil {
					return fmt.Errorf("%w: %w", ErrUsage, err)
				}
				req.Device = &identity.Device{ID: device, Flag: flag, Level: lvl}
			}
			var reply api.TicketReply
			if err := t.call(c.Context(), subject.TicketIssue, req, &reply); err != nil {
				return err
			}
			return t.print(reply, func(w io.Writer) { _, _ = fmt.Fprintln(w, reply.Ticket) })
		},
	}
	f := c.Flags()
	f.StringVar(&account, "account", "", "account id (default: the user's part)")
	f.Int64Var(&generation, "generation", 0, "account generation (default: the current one)")
	f.StringVar(&device, "device", "", "device id to fix")
	f.StringVar(&flag, "flag", "", "device class to fix")
	f.StringVar(&level, "level", "", "device level: master or slave")
	f.StringArrayVar(&groups, "group", nil, "glob of groups that the client may join itself (repeatable)")
	return c
}

func identityOf(uid identity.UID, account string, generation int64) identity.Identity {
	region, realm, user := uid.Split()
	if account == "" {
		account = user
	}
	return identity.Identity{AccountID: account, UserID: user, RegionID: region, RealmID: realm, Generation: generation}
}

func parseUID(s string) (identity.UID, error) {
	uid, err := identity.ParseUID(s)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return uid, nil
}

func parseUIDs(list []string) ([]identity.UID, error) {
	var out []identity.UID
	for _, s := range list {
		uid, err := parseUID(s)
		if err != nil {
			return nil, err
		}
		out = append(out, uid)
	}
	return out, nil
}

func parseSessions(list []string) ([]identity.SessionID, error) {
	var out []identity.SessionID
	for _, s := range list {
		id, err := identity.ParseSessionID(s)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUsage, err)
		}
		out = append(out, id)
	}
	return out, nil
}
