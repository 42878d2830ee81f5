package directory

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/slot"
)

var sizes = []int{10_000, 100_000, 1_000_000}

// population is n sessions of n users over all hash slots, on 20 gateways.
func population(n int) []Route {
	out := make([]Route, n)
	for i := range out {
		u := identity.UID(fmt.Sprintf("eu/main/player-%08d", i))
		out[i] = route(u, i+1, owner(i%20), app(fmt.Sprintf("device-%08d", i), identity.LevelSlave))
	}
	// Logins do not come in the order of memory.
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func openAll(b *testing.B) *Directory {
	b.Helper()
	d, err := New(Config{}, epoch)
	if err != nil {
		b.Fatal(err)
	}
	for h := range slot.Count {
		if err := d.Open(targetOf(slot.Hash(h), 1), nil, epoch); err != nil {
			b.Fatal(err)
		}
	}
	return d
}

// fill registers and commits all. Each route has strings of its own, as a decoded request has.
func fill(b *testing.B, d *Directory, routes []Route, now time.Time) {
	b.Helper()
	var fx Effects
	for i := range routes {
		r := routes[i]
		r.UID, r.Device.ID = identity.UID(strings.Clone(string(r.UID))), strings.Clone(r.Device.ID)
		tg := targetOf(slot.OfUID(r.UID), 1)
		reg, err := d.Register(tg, r, PolicyDevice, now)
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Commit(tg, reg.Candidate, r.Session, nil, now, &fx); err != nil {
			b.Fatal(err)
		}
		fx.Reset()
	}
}

func perRoute(b *testing.B, routes int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(routes), "ns/route")
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkRegister logs all users in: register and commit, fences and events included. B/route is
// the heap that the directory holds afterwards: records, indexes, user and device ids.
func BenchmarkRegister(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			routes := population(n)
			var held float64
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				before := heap()
				d := openAll(b)
				b.StartTimer()
				fill(b, d, routes, epoch)
				b.StopTimer()
				held = float64(heap()-before) / float64(n)
				runtime.KeepAlive(d)
				b.StartTimer()
			}
			perRoute(b, n)
			b.ReportMetric(held, "B/route")
		})
	}
}

// BenchmarkTouch takes signs of life as a gateway sends them: batches of one owner and one slot.
// Each comes in a new second, so that every route moves in the activity index.
func BenchmarkTouch(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			routes := population(n)
			d := openAll(b)
			fill(b, d, routes, epoch)
			type group struct {
				t slot.Target
				o Owner
			}
			batches := map[group][]SessionSeq{}
			for _, r := range routes {
				g := group{targetOf(slot.OfUID(r.UID), 1), r.Owner()}
				batches[g] = append(batches[g], SessionSeq{Session: r.Session, OwnerSeq: 1})
			}
			var missing []identity.SessionID
			now := epoch
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Second)
				for g, batch := range batches {
					var err error
					if missing, err = d.Touch(g.t, g.o, batch, now, missing[:0]); err != nil || len(missing) > 0 {
						b.Fatal(err, len(missing))
					}
				}
			}
			perRoute(b, n)
		})
	}
}

// BenchmarkExpire lets all routes run out, with an event for each user.
func BenchmarkExpire(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			routes := population(n)
			var fx Effects
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				d := openAll(b)
				fill(b, d, routes, epoch)
				b.StartTimer()
				left := n
				for now := epoch.Add(time.Hour); left > 0; left -= d.Expire(now, nil, &fx) {
					fx.Reset()
				}
			}
			perRoute(b, n)
		})
	}
}

// BenchmarkExpireNothingDue is a pass over a full directory with nothing to do.
func BenchmarkExpireNothingDue(b *testing.B) {
	d := openAll(b)
	fill(b, d, population(1_000_000), epoch)
	var fx Effects
	d.Expire(epoch.Add(time.Minute), nil, &fx) // the candidates' deadlines are over
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		if d.Expire(epoch.Add(2*time.Minute), nil, &fx) != 0 {
			b.Fatal("expired")
		}
	}
}

// question is 512 users grouped over 221 hash slots, 55 of whom are online.
type question struct {
	targets []slot.Target
	users   [][]identity.UID
}

func newQuestion(b *testing.B, d *Directory) question {
	b.Helper()
	const users, targets, online = 512, 221, 55
	q := question{}
	for h := range targets {
		q.targets = append(q.targets, targetOf(slot.Hash(h), 1))
		n := users / targets
		if h < users%targets {
			n++
		}
		q.users = append(q.users, usersIn(slot.Hash(h), n))
	}
	var routes []Route
	for i := range online {
		routes = append(routes, route(q.users[i*4][0], 1<<30+i, owner(i%20), app("", identity.LevelSlave)))
	}
	fill(b, d, routes, epoch)
	return q
}

func (q *question) ask(d *Directory, f *Found) error {
	f.Reset()
	for i := range q.targets {
		if err := d.Lookup(q.targets[i], q.users[i], f); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkLookup512 finds 512 users over 221 targets, 55 routes of them, each group with its
// fence, alone in the directory ("0") and among a million other routes.
func BenchmarkLookup512(b *testing.B) {
	for _, others := range []int{0, 1_000_000} {
		d := openAll(b)
		fill(b, d, population(others), epoch)
		q := newQuestion(b, d)
		check := func(b *testing.B, f *Found, err error) {
			if err != nil || len(f.Entries) != 512 || len(f.Routes) != 55 {
				b.Errorf("%d entries, %d routes: %v", len(f.Entries), len(f.Routes), err)
			}
		}
		b.Run(fmt.Sprintf("%d/one", others), func(b *testing.B) {
			var f Found
			b.ReportAllocs()
			for b.Loop() {
				check(b, &f, q.ask(d, &f))
			}
		})
		b.Run(fmt.Sprintf("%d/parallel", others), func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				var f Found
				for pb.Next() {
					check(b, &f, q.ask(d, &f))
				}
			})
		})
	}
}
