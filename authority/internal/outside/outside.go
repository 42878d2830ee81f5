package outside

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.opentelemetry.io/otel/trace"

	"github.com/switchyard-io/switchyard/authority/internal/dispatch"
	"github.com/switchyard-io/switchyard/authority/internal/leader"
	"github.com/switchyard-io/switchyard/shared/api"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/leadership"
	"github.com/switchyard-io/switchyard/shared/membership"
	"github.com/switchyard-io/switchyard/shared/subject"
	"github.com/switchyard-io/switchyard/shared/telemetry"
)

// Config of an Outside. Zero fields take the defaults.
type Config struct {
	// MaxRequests bounds the requests for many users that run at a time. Default 1024.
	MaxRequests int
	// HoldFor is how long a push for one user may wait for its slot's rebuild. Default 2.5 s.
	HoldFor time.Duration
	// Log gets replies that could not be sent. nil: dropped.
	Log *slog.Logger
	// Tracer makes the spans of requests.
	Tracer trace.Tracer
}

// Cluster is what is known of all nodes.
type Cluster struct {
	Table   *leadership.Table
	Tracker *membership.Tracker
}

// Outside serves backends between Register and Stop.
type Outside struct {
	cfg      Config
	nc       *nats.Conn
	leader   *leader.Leader
	dispatch *dispatch.Dispatcher
	cluster  Cluster

	slots   chan struct{} // one a running request
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	requests, refused, cut atomic.Int64
}

// New makes an outside; Register it.
func New(cfg Config, nc *nats.Conn, l *leader.Leader, d *dispatch.Dispatcher, c Cluster) *Outside {
	if cfg.MaxRequests <= 0 {
		cfg.MaxRequests = 1024
	}
	if cfg.HoldFor <= 0 {
		cfg.HoldFor = 2500 * time.Millisecond
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Tracer == nil {
		cfg.Tracer = telemetry.Noop().Tracer("")
	}
	o := &Outside{cfg: cfg, nc: nc, leader: l, dispatch: d, cluster: c, slots: make(chan struct{}, cfg.MaxRequests)}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	return o
}

// Service is where endpoints are added: a micro.Service.
type Service interface {
	AddEndpoint(name string, handler micro.Handler, opts ...micro.EndpointOpt) error
}

// Register adds the endpoints. Those of the per-user subjects have no queue group: where the
// server has no mapping, every node hears them.
func (o *Outside) Register(s Service) error {
	many := func(h func(context.Context, *request)) micro.Handler {
		return micro.HandlerFunc(func(r micro.Request) { o.spawn(r, h) })
	}
	user := func(op subject.UserOp) micro.Handler {
		return micro.HandlerFunc(func(r micro.Request) { o.unmapped(r, op) })
	}
	for _, e := range []struct {
		name, subject string
		handler       micro.Handler
		opts          []micro.EndpointOpt
	}{
		{"push", subject.Push, many(o.push), nil},
		{"presence", subject.Presence, many(o.presence), nil},
		{"kick", subject.Kick, many(o.kick), nil},
		{"group-join", subject.GroupJoin, many(o.groupJoin), nil},
		{"group-leave", subject.GroupLeave, many(o.groupLeave), nil},
		{"slots", subject.Slots, many(o.slotTable), nil},
		{"nodes", subject.Nodes, many(o.nodes), nil},
		{"user-push", subject.UserAll(subject.UserPush), user(subject.UserPush), []micro.EndpointOpt{micro.WithEndpointQueueGroupDisabled()}},
		{"user-presence", subject.UserAll(subject.UserPresence), user(subject.UserPresence), []micro.EndpointOpt{micro.WithEndpointQueueGroupDisabled()}},
	} {
		if err := s.AddEndpoint(e.name, e.handler, append(e.opts, micro.WithEndpointSubject(e.subject))...); err != nil {
			return fmt.Errorf("endpoint %s: %w", e.name, err)
		}
	}
	return nil
}

// Stop waits for the requests that run, at most until ctx ends; then they are cut short. Stop the
// micro service before.
func (o *Outside) Stop(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		o.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		o.cancel()
		<-done
	}
	o.cancel()
}

// Counts are the requests taken, refused for MaxRequests, and replies cut to fit a message.
func (o *Outside) Counts() (requests, refused, cut int64) {
	return o.requests.Load(), o.refused.Load(), o.cut.Load()
}

// request is one call of a backend, from an endpoint or from a slot's subject.
type request struct {
	data   []byte
	header nats.Header
	reply  string // empty: fire and forget
}

// fromMicro takes what is needed from an endpoint's request: it may be answered after the handler
// has returned, which micro's own answers are not made for.
func fromMicro(r micro.Request) *request {
	return &request{data: r.Data(), header: nats.Header(r.Headers()), reply: r.Reply()}
}

// spawn serves a request for many users in its own goroutine, if there is room.
func (o *Outside) spawn(r micro.Request, serve func(context.Context, *request)) {
	o.requests.Add(1)
	req := fromMicro(r)
	select {
	case o.slots <- struct{}{}:
	default:
		o.refused.Add(1)
		o.fail(req, fault.ErrQueueFull)
		return
	}
	o.running.Go(func() {
		defer func() { <-o.slots }()
		ctx, span := o.cfg.Tracer.Start(telemetry.Extract(o.ctx, req.header), r.Subject(), trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		serve(ctx, req)
	})
}

// unmapped serves a per-user subject that the server did not map to its slot. Only the leader
// answers; order is kept, as there is one goroutine for the endpoint.
func (o *Outside) unmapped(r micro.Request, op subject.UserOp) {
	uid, got, ok := subject.ParseUser(r.Subject())
	if !ok || got != op {
		return // no node leads it: the caller hears "no answer", as of any name that is no user's
	}
	o.user(uid, op, fromMicro(r))
}

// User serves a per-user call that arrived on the slot's subject.
func (o *Outside) User(uid identity.UID, op subject.UserOp, m *nats.Msg) {
	o.user(uid, op, &request{data: m.Data, header: m.Header, reply: m.Reply})
}

func (o *Outside) fail(r *request, err error) {
	f := fault.From(err)
	if f.Code == fault.Internal {
		o.cfg.Log.Error("request failed", "error", err)
	}
	if r.reply != "" {
		o.send(f.Msg(r.reply))
	}
}

func (o *Outside) send(m *nats.Msg) {
	if err := o.nc.PublishMsg(m); err != nil {
		o.cfg.Log.Warn("reply not sent", "error", err)
	}
}

func (o *Outside) answer(r *request, v any) {
	if r.reply == "" {
		return
	}
	data, err := encode(v)
	if err != nil {
		o.fail(r, err)
		return
	}
	if int64(len(data)) > o.nc.MaxPayload() {
		if p, ok := v.(*api.PushReply); ok && len(p.Sessions) > 0 {
			o.answer(r, o.shorten(p, len(data)))
			return
		}
		o.fail(r, fault.New(fault.TooLarge, "the answer is too large: ask for fewer users"))
		return
	}
	o.send(&nats.Msg{Subject: r.reply, Data: data})
}

func encode(v any) ([]byte, error) {
	if p, ok := v.(*api.PushReply); ok {
		return p.AppendJSON(make([]byte, 0, p.JSONBytes())), nil
	}
	return json.Marshal(v)
}

// shorten drops session details from a reply that does not fit a message: the counts stay true,
// and an error says that something is missing.
func (o *Outside) shorten(p *api.PushReply, size int) *api.PushReply {
	o.cut.Add(1)
	short := *p
	keep := int(int64(len(p.Sessions)) * (o.nc.MaxPayload() * 3 / 4) / int64(size))
	if keep >= len(p.Sessions) {
		keep = len(p.Sessions) / 2
	}
	short.Sessions = p.Sessions[:keep]
	if len(p.Errors) == 0 || p.Errors[len(p.Errors)-1].Code != fault.TooLarge {
		short.Errors = append(p.Errors, api.UserError{Code: fault.TooLarge})
	}
	return &short
}

// traced is the header to pass on with what a request causes; nil without a trace.
func traced(ctx context.Context) nats.Header {
	if !telemetry.Traced(ctx) {
		return nil
	}
	h := nats.Header{}
	telemetry.Inject(ctx, h)
	return h
}
