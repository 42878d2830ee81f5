package membership

import (
	"strconv"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
	"github.com/switchyard-io/switchyard/shared/wire/wirepb"
)

const (
	// probeLead is how long before the verdict probing begins.
	probeLead = 500 * time.Millisecond
	// probeEvery and probeTimeout pace the probes of one silent life.
	probeEvery   = 200 * time.Millisecond
	probeTimeout = 250 * time.Millisecond
	// refusals is how many "no responders" in a row make a verdict.
	refusals = 3
	// goneKept is how long the verdict on a life is remembered.
	goneKept = 10 * time.Minute
	// gatewayService is the service whose lives get GatewayGoneAfter.
	gatewayService = "gateway"
)

type key struct{ service, node, boot string }

// life is what a view knows of one process life.
type life struct {
	node    Node
	beacon  *wirepb.Beacon
	heard   bool      // a beacon came; else somebody only spoke of it
	last    time.Time // of the last beacon, or what counts as one
	shown   time.Time // of the last sign of life, probe answers included
	refused int       // "no responders" in a row
	sent    time.Time // of the last probe
	token   string    // of the probe that is out; "" none
}

// verdict is a life that was declared gone.
type verdict struct {
	status Status
	at     time.Time
	seq    uint64 // of its last beacon
}

// probe is a private subject to ask.
type probe struct {
	key   key
	token string
}

// view is the pure state of a Tracker: beacons, answers and time in, events and probes out.
type view struct {
	cfg        Config
	lives      map[key]*life   // at most cfg.MaxNodes
	gone       map[key]verdict // at most cfg.MaxNodes
	asked      map[string]key  // probes that are out, by token; at most one a life
	tokens     uint64
	started    time.Time // of listening; moves with each reconnect
	lastTick   time.Time
	reconnects uint64
	graceUntil time.Time
}

func newView(cfg Config) *view {
	return &view{cfg: cfg, lives: map[key]*life{}, gone: map[key]verdict{}, asked: map[string]key{}}
}

func (v *view) goneAfter(service string) time.Duration {
	if service == gatewayService {
		return v.cfg.GatewayGoneAfter
	}
	return v.cfg.GoneAfter
}

func (v *view) settled(now time.Time) bool {
	return !v.started.IsZero() && now.Sub(v.started) >= 3*BeaconInterval
}

func (v *view) status(k key) Status {
	if l, ok := v.lives[k]; ok {
		if l.node.Silent || !l.heard {
			return Quiet
		}
		return Live
	}
	return v.gone[k].status // Unknown when it is not there
}

// beacon takes one in; false: beyond a bound or not well formed.
func (v *view) beacon(now time.Time, b *wirepb.Beacon) ([]Event, bool) {
	k := key{b.Service, b.NodeId, b.BootId}
	if b.Service == "" || !identity.ValidNode(b.NodeId) || !identity.ValidNode(b.BootId) {
		return nil, false
	}
	if g, ok := v.gone[k]; ok && b.Sequence <= g.seq {
		return nil, true // older than the verdict
	}
	if b.State == lifecycle.Stopped {
		return v.leave(now, k, Stopped, b.Sequence), true
	}
	l, ok := v.lives[k]
	if !ok {
		if len(v.lives) >= v.cfg.MaxNodes {
			return nil, false
		}
		l = &life{}
		v.lives[k] = l
	}
	delete(v.gone, k)
	first := !l.heard
	l.heard, l.beacon, l.refused = true, b, 0
	l.last, l.shown = now, now
	l.node = Node{
		Service: b.Service, ID: b.NodeId, Boot: b.BootId, State: b.State, Version: b.Version,
		StartedAt: time.UnixMilli(b.StartedAtMs), Sessions: b.Sessions, Eligible: b.Eligible,
		LastSeen: now,
	}
	ev := Event{Kind: Beaconed, Node: l.node, Beacon: b}
	if !first {
		return []Event{ev}, true
	}
	v.suspectOlder(now, k)
	joined := ev
	joined.Kind = Joined
	return []Event{joined, ev}, true
}

// suspectOlder begins to probe other lives of a node whose new life was just heard.
func (v *view) suspectOlder(now time.Time, k key) {
	for o, l := range v.lives {
		if o.service == k.service && o.node == k.node && o.boot < k.boot {
			l.last = earlier(l.last, now.Add(probeLead-v.goneAfter(k.service)))
		}
	}
}

func (v *view) suspect(now time.Time, k key) {
	if v.status(k) != Unknown || len(v.lives) >= v.cfg.MaxNodes {
		return
	}
	v.lives[k] = &life{
		node: Node{Service: k.service, ID: k.node, Boot: k.boot, Silent: true},
		last: now.Add(probeLead - v.goneAfter(k.service)), shown: now,
	}
}

// probed takes in the answer to a probe: gone means "no responders".
func (v *view) probed(now time.Time, token string, gone bool) []Event {
	k, ok := v.asked[token]
	if !ok {
		return nil // too late
	}
	delete(v.asked, token)
	l := v.lives[k]
	l.token = ""
	if !gone {
		l.refused, l.shown = 0, now
		return nil
	}
	l.refused++
	return v.judge(now, k, l)
}

// tick lets time pass. connected and reconnects are of the tracker's own connection.
func (v *view) tick(now time.Time, connected bool, reconnects uint64) ([]Event, []probe) {
	switch {
	case v.lastTick.IsZero():
		v.started, v.reconnects = now, reconnects
	case !connected || reconnects != v.reconnects:
		// Our own connection was away: nobody can be blamed for a beacon that we did not hear.
		v.started, v.reconnects = now, reconnects
		v.graceUntil = now.Add(v.cfg.ReconnectGrace)
	case now.Sub(v.lastTick) > pauseAfter:
		v.graceUntil = later(v.graceUntil, now.Add(v.cfg.GoneAfter))
	}
	v.lastTick = now
	for k, g := range v.gone {
		if now.Sub(g.at) > goneKept {
			delete(v.gone, k)
		}
	}
	if now.Before(v.graceUntil) {
		for _, l := range v.lives {
			l.refused, l.shown = 0, now
		}
		return nil, nil
	}
	var events []Event
	var probes []probe
	for k, l := range v.lives {
		if ev := v.judge(now, k, l); ev != nil {
			events = append(events, ev...)
			continue
		}
		if p, ok := v.due(now, k, l); ok {
			probes = append(probes, p)
		}
	}
	return events, probes
}

// judge declares a life gone if it is.
func (v *view) judge(now time.Time, k key, l *life) []Event {
	silence := now.Sub(l.last)
	if silence < v.goneAfter(k.service) || now.Before(v.graceUntil) {
		return nil
	}
	l.node.Silent = true
	if l.refused >= refusals {
		return v.leave(now, k, NoResponders, 0)
	}
	if now.Sub(l.shown) >= v.cfg.HangTimeout {
		return v.leave(now, k, Silent, 0)
	}
	return nil
}

// due is the next probe of a silent life, when it is time for one.
func (v *view) due(now time.Time, k key, l *life) (probe, bool) {
	if now.Sub(l.last) < v.goneAfter(k.service)-probeLead {
		return probe{}, false
	}
	wait := probeEvery
	if l.token != "" {
		wait = probeTimeout
	}
	if now.Sub(l.sent) < wait {
		return probe{}, false
	}
	if l.token != "" { // timed out: somebody still subscribes there
		delete(v.asked, l.token)
		l.refused = 0
	}
	v.tokens++
	l.token, l.sent = strconv.FormatUint(v.tokens, 36), now
	v.asked[l.token] = k
	return probe{k, l.token}, true
}

// leave moves a life to the gone.
func (v *view) leave(now time.Time, k key, why Reason, seq uint64) []Event {
	l, known := v.lives[k]
	if known {
		delete(v.asked, l.token)
		delete(v.lives, k)
		if l.beacon != nil {
			seq = max(seq, l.beacon.Sequence)
		}
	}
	if len(v.gone) >= v.cfg.MaxNodes {
		for old := range v.gone { // any: a forgotten verdict is found again by probing
			delete(v.gone, old)
			break
		}
	}
	status := Gone
	if why == Silent {
		status = Hung
	}
	v.gone[k] = verdict{status: status, at: now, seq: seq}
	if !known || !l.heard {
		return nil
	}
	if why == Stopped {
		l.node.State = lifecycle.Stopped
	}
	return []Event{{Kind: Left, Node: l.node, Reason: why}}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
