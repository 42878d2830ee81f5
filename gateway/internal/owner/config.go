package owner

import (
	"errors"
	"log/slog"
	"time"
)

// Config bounds the owner endpoints. A zero value takes the default.
type Config struct {
	// Gateway and Boot name this life of this gateway. Required.
	Gateway, Boot string
	// PendingMessages and PendingBytes bound what waits for the push and for the action handler;
	// what is over is dropped, counted, and unanswered. Defaults 65536, 64 MiB.
	PendingMessages, PendingBytes int
	// GroupQueue is the most group pushes and syncs that wait. Default 8192.
	GroupQueue int
	// MaxItems, MaxAddresses bound one batch: its items and all of their addresses. A larger
	// batch is ignored and counted. Defaults 4096, 65536.
	MaxItems, MaxAddresses int
	// MaxAckWaits is the most acknowledgements that are waited for at once. Over it a push is
	// reported as not acknowledged in time, at once. Default 262144.
	MaxAckWaits int
	// MaxAckWait is the longest that one acknowledgement is waited for. Default 60 s.
	MaxAckWait time.Duration
	// MaxGroups and MaxGroupsPerSession bound the groups with members here and the groups of one
	// session. Defaults 65536, 256.
	MaxGroups, MaxGroupsPerSession int
	// Log gets late requests. Nil: dropped.
	Log *slog.Logger
}

// flushTimeout bounds the wait for the server at the start.
const flushTimeout = 5 * time.Second

// defaultAckWait is how long an acknowledgement is waited for when the sender names no end.
const defaultAckWait = 5 * time.Second

// maxResults is the most results in one reply, so that a reply stays far below the server's limit.
const maxResults = 1024

func (c *Config) defaults() error {
	if c.Gateway == "" || c.Boot == "" {
		return errors.New("owner: gateway and boot id are required")
	}
	for p, n := range map[*int]int{
		&c.PendingMessages: 1 << 16, &c.PendingBytes: 64 << 20, &c.GroupQueue: 1 << 13,
		&c.MaxItems: 4096, &c.MaxAddresses: 1 << 16, &c.MaxAckWaits: 1 << 18,
		&c.MaxGroups: 1 << 16, &c.MaxGroupsPerSession: 256,
	} {
		if *p < 0 {
			return errors.New("owner: a negative bound")
		}
		if *p == 0 {
			*p = n
		}
	}
	if c.MaxAckWait < 0 {
		return errors.New("owner: a negative duration")
	}
	if c.MaxAckWait == 0 {
		c.MaxAckWait = time.Minute
	}
	return nil
}
