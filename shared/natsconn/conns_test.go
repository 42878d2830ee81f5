package natsconn_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/natsconn"
	"github.com/switchyard-io/switchyard/shared/natstest"
)

func TestOpenAndClose(t *testing.T) {
	s := natstest.Server(t)
	c := natstest.Conns(t, s.URL())
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	c.Close()
	if err := c.Check(); !errors.Is(err, natsconn.ErrNotConnected) {
		t.Fatalf("after close: %v", err)
	}
}

func TestOpenGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := natsconn.Open(ctx, natsconn.Config{URL: "nats://127.0.0.1:1"}, "test", slog.New(slog.DiscardHandler))
	if !errors.Is(err, natsconn.ErrNotConnected) {
		t.Fatalf("got %v", err)
	}
	t.Log(err)
}

func TestRequestErrors(t *testing.T) {
	s := natstest.Server(t)
	c := natstest.Conns(t, s.URL())
	_, err := natsconn.Request(t.Context(), c.Data, "nobody", nil)
	if !errors.Is(err, natsconn.ErrNoResponders) || !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("no responders: %v", err)
	}
	if _, err := c.Data.Subscribe("mute", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = natsconn.Request(ctx, c.Data, "mute", nil)
	if !errors.Is(err, fault.ErrTimeout) || errors.Is(err, natsconn.ErrNoResponders) {
		t.Fatalf("timeout: %v", err)
	}
}
