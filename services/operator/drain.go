package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/kelseyhightower/envconfig"
	"github.com/spf13/cobra"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// adminAccess says how an admin listener is reached: what the all-in-one uses, by default.
type adminAccess struct {
	Token   string `envconfig:"SWITCHYARD_ADMIN_TOKEN"`
	DataDir string `envconfig:"SWITCHYARD_DATA_DIR" default:".switchyard"`
	Listen  string `envconfig:"GATEWAY_ADMIN_LISTEN" default:"127.0.0.1:7010"`
}

func (a adminAccess) token() (string, error) {
	if a.Token != "" {
		return a.Token, nil
	}
	b, err := os.ReadFile(filepath.Join(a.DataDir, TokenFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", fault.Wrap(fault.Unauthenticated, "no admin token: set SWITCHYARD_ADMIN_TOKEN or SWITCHYARD_DATA_DIR", err)
	}
	return strings.TrimSpace(string(b)), err
}

// TokenFile is the name of the admin token's file in the data folder.
const TokenFile = "admin.token"

// drained is the result of drain.
type drained struct {
	Admin string `json:"admin"`
	State string `json:"state"`
}

func (t *tool) drain() *cobra.Command {
	var admin string
	var undo bool
	c := &cobra.Command{
		Use:   "drain",
		Short: "Have a process hand over what it holds, or take that back",
		Long: `Have the process behind an admin listener drain: it turns unready, sends its clients elsewhere
over half of its drain timeout, and hands over its slots. It keeps running until it is stopped.

The admin token is SWITCHYARD_ADMIN_TOKEN, or the file admin.token in SWITCHYARD_DATA_DIR.`,
		Args: args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			var access adminAccess
			if err := envconfig.Process("", &access); err != nil {
				return err
			}
			if admin == "" {
				admin = "http://" + access.Listen
			}
			token, err := access.token()
			if err != nil {
				return err
			}
			path, state := "/drain", "draining"
			if undo {
				path, state = "/undrain", "ready"
			}
			admin = strings.TrimRight(admin, "/")
			if err := t.post(c.Context(), admin+path, token); err != nil {
				return err
			}
			out := drained{Admin: admin, State: state}
			return t.print(out, func(w io.Writer) { _, _ = fmt.Fprintln(w, out.State, out.Admin) })
		},
	}
	c.Flags().StringVar(&admin, "admin", "", "URL of the admin listener (default: that of GATEWAY_ADMIN_LISTEN)")
	c.Flags().BoolVar(&undo, "undo", false, "take a drain back")
	return c
}

func (t *tool) post(ctx context.Context, url, token string) error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fault.Wrap(fault.Unavailable, "admin listener does not answer", err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fault.Newf(codeOf(resp.StatusCode), "%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

func codeOf(status int) fault.Code {
	switch status {
	case http.StatusUnauthorized:
		return fault.Unauthenticated
	case http.StatusForbidden:
		return fault.Forbidden
	case http.StatusServiceUnavailable:
		return fault.Unavailable
	}
	return fault.InvalidRequest
}
