package activation_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard-io/switchyard/gateway/internal/activation"
	"github.com/switchyard-io/switchyard/gateway/internal/presence"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/identity"
	"github.com/switchyard-io/switchyard/shared/ticket"
)

// conflict is a session of another gateway that stands in the way.
func conflict() presence.Conflict {
	return presence.Conflict{UID: alice.UID(), Gateway: "g2", Boot: "b2", Session: identity.NewSessionID(0), OwnerSeq: 1}
}

func (w *world) expect(t *testing.T, want string) {
	t.Helper()
	if got := w.happened(); got != want {
		t.Errorf("happened: %s\nwant:     %s", got, want)
	}
}

func TestStepsInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.login()
		w.expect(t, "register redeem commit settled answer")
		if w.reg.Active() != 1 || w.registers[0] != 1 {
			t.Fatalf("%d active, registers %v", w.reg.Active(), w.registers)
		}
		if g := w.session.Grant(); g == nil || g.Identity != alice || g.Lineage != w.session.ID() {
			t.Fatalf("grant %+v", g)
		}
		w.session.Closed(0)
		w.expect(t, "unregister:2")
	})
}

func TestEachFailureIsUndone(t *testing.T) {
	down := fault.ErrUnavailable
	for _, c := range []struct {
		name string
		fail func(*world)
		want string
		code fault.Code
	}{
		{"ticket", func(w *world) { w.verify = func() (ticket.Claims, error) { return ticket.Claims{}, ticket.ErrExpired } },
			"refused", fault.Unauthenticated},
		{"draining", func(w *world) { w.act.SetDraining(true) }, "refused", fault.Unavailable},
		{"register", func(w *world) { w.register = func() ([]presence.Conflict, error) { return nil, down } },
			"register refused", fault.Unavailable},
		{"policy", func(w *world) {
			w.register = func() ([]presence.Conflict, error) { return nil, fault.ErrDuplicateSession }
		},
			"register refused", fault.DuplicateSession},
		{"redeem is refused", func(w *world) { w.redeem = func() error { return fault.ErrUnauthenticated } },
			"register redeem abort release:j1 refused", fault.Unauthenticated},
		{"redeem reaches nobody", func(w *world) { w.redeem = func() error { return activation.ErrUntouched } },
			"register redeem abort refused", fault.Unavailable},
		{"redeem has no answer", func(w *world) { w.redeem = func() error { return down } },
			"register redeem abort release:j1 refused", fault.Unavailable},
		{"commit", func(w *world) { w.commit = func() ([]presence.Conflict, error) { return nil, down } },
			"register redeem commit unregister:2 abort release:j1 refused", fault.Unavailable},
		{"settle", func(w *world) { w.activated = func() error { return down } },
			"register redeem commit settled unregister:2 abort release:j1 refused", fault.Unavailable},
		{"release", func(w *world) {
			w.commit = func() ([]presence.Conflict, error) { return nil, down }
			w.release = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		}, "register redeem commit unregister:2 abort release:j1 refused", fault.Unauthenticated},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				c.fail(w)
				w.login()
				<-time.After(4 * time.Second) // synthetic: whatever waits has ended
				synctest.Wait()
				w.expect(t, c.want)
				if code := w.errorCode(t); code != c.code {
					t.Errorf("told %s, want %s", code, c.code)
				}
				if w.reg.Len() != 0 {
					t.Errorf("%d sessions left", w.reg.Len())
				}
			})
		})
	}
}

// TestTheAnswerComesInTime: whatever hangs, and whatever has to be undone, the client is answered
// within its request's time.
func TestTheAnswerComesInTime(t *testing.T) {
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return fault.Wrap(fault.Unavailable, "temporarily unavailable", ctx.Err())
	}
	for name, c := range map[string]struct {
		release func(context.Context) error
		code    fault.Code
	}{
		"released":     {nil, fault.Unavailable},
		"not released": {hang, fault.Unauthenticated},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				w.redeemed, w.release = hang, c.release
				w.login()
				<-time.After(5 * time.Second)
				synctest.Wait()
				w.expect(t, "register redeem abort release:j1 refused")
				if code := w.errorCode(t); code != c.code {
					t.Errorf("told %s, want %s", code, c.code)
				}
			})
		})
	}
}

func TestAnotherTryAfterARefusal(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.commit = func() ([]presence.Conflict, error) { return nil, fault.ErrUnavailable }
		w.login()
		w.happened()
		w.commit = nil
		w.login()
		w.expect(t, "register redeem commit settled answer")
	})
}

func TestI5_AUsedTicketKicksNobody(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.register = func() ([]presence.Conflict, error) { return []presence.Conflict{conflict()}, nil }
		w.redeem = func() error { return activation.ErrUsed }
		w.login()
		// Nobody is evicted, and the ticket stays with the session that has used it.
		w.expect(t, "register redeem abort refused")
		if code := w.errorCode(t); code != fault.Unauthenticated {
			t.Errorf("told %s", code)
		}
		if st := w.act.Stats(); st.Used != 1 || st.Evicted != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestI1_TheAnswerComesAfterTheOldOwnersConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		k, late := conflict(), conflict()
		w.register = func() ([]presence.Conflict, error) { return []presence.Conflict{k}, nil }
		w.evict = func(context.Context) presence.Outcome {
			<-time.After(time.Second) // synthetic: the owner takes a moment
			return presence.Closed
		}
		commits := 0
		w.commit = func() ([]presence.Conflict, error) {
			if commits++; commits == 1 { // another login was committed meanwhile
				return []presence.Conflict{late}, nil
			}
			return nil, nil
		}
		w.login()
		w.expect(t, "register redeem")
		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		w.expect(t, "evicted:1 commit")
		<-time.After(time.Second)
		synctest.Wait()
		w.expect(t, "evicted:1 commit settled answer")
		if len(w.confirmed) != 2 || w.confirmed[0] != k.Session || w.confirmed[1] != late.Session {
			t.Errorf("confirmed %v", w.confirmed)
		}
	})
}

func TestI1_ASilentOwnerIsFencedAndLocksNobodyOut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		k := conflict()
		w.register = func() ([]presence.Conflict, error) { return []presence.Conflict{k}, nil }
		w.evict = func(ctx context.Context) presence.Outcome {
			<-ctx.Done()
			return presence.Silent
		}
		w.login()
		w.expect(t, "register redeem")
		<-time.After(3 * time.Second)
		synctest.Wait()
		w.expect(t, "evicted:1 commit settled answer")
		if len(w.confirmed) != 1 || w.confirmed[0] != k.Session || w.act.Stats().Fenced != 1 {
			t.Errorf("confirmed %v, %+v", w.confirmed, w.act.Stats())
		}
	})
}

// TestI1_AnOwnerIsNotCalledSilentAtOnce: what is left of an attempt's time is too little to tell.
func TestI1_AnOwnerIsNotCalledSilentAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.register = func() ([]presence.Conflict, error) { return []presence.Conflict{conflict()}, nil }
		w.redeem = func() error {
			<-time.After(3500 * time.Millisecond) // synthetic: of 4 s
			return nil
		}
		w.login()
		<-time.After(4 * time.Second)
		synctest.Wait()
		w.expect(t, "register redeem abort release:j1 refused")
		if code := w.errorCode(t); code != fault.Unavailable {
			t.Errorf("told %s", code)
		}
		if len(w.confirmed) != 0 {
			t.Errorf("confirmed %v", w.confirmed)
		}
	})
}

func TestALostLeaderIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		k := conflict()
		w.register = func() ([]presence.Conflict, error) { return []presence.Conflict{k}, nil }
		commits := 0
		w.commit = func() ([]presence.Conflict, error) {
			if commits++; commits == 1 {
				return nil, presence.ErrExpired
			}
			return nil, nil
		}
		w.login()
		// The new leader may still list what has been closed already: it is not asked twice.
		w.expect(t, "register redeem evicted:1 commit register commit settled answer")
		if len(w.registers) != 2 || w.registers[1] <= w.registers[0] {
			t.Errorf("sequences %v", w.registers)
		}
		if _, ok := w.reg.Exact(alice.UID(), w.session.ID(), w.registers[1]); !ok {
			t.Error("the second registration is not exact")
		}
	})
	bubble(t, func(t *testing.T, w *world) { // but not for ever
		w.commit = func() ([]presence.Conflict, error) { return nil, presence.ErrExpired }
		w.login()
		if got := strings.Count(w.happened(), "commit"); got != 4 || w.errorCode(t) != fault.Unavailable {
			t.Errorf("%d commits", got)
		}
	})
}

func TestI13_AConnectionThatClosesMeanwhileIsNotBroughtBack(t *testing.T) {
	for _, c := range []struct {
		at   string
		want string
	}{
		{"register", "register abort"},
		{"redeem", "register redeem abort release:j1"},
		{"evict", "register redeem evicted:1 abort release:j1"},
		{"commit", "register redeem commit unregister:2 abort release:j1"},
		{"settle", "register redeem commit settled unregister:2 abort release:j1"},
	} {
		t.Run(c.at, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				die := func(at string) {
					if at == c.at {
						w.session.Closed(0)
					}
				}
				w.register = func() ([]presence.Conflict, error) {
					die("register")
					if c.at == "evict" {
						return []presence.Conflict{conflict()}, nil
					}
					return nil, nil
				}
				w.redeem = func() error { die("redeem"); return nil }
				w.evict = func(context.Context) presence.Outcome { die("evict"); return presence.Closed }
				w.commit = func() ([]presence.Conflict, error) { die("commit"); return nil, nil }
				w.activated = func() error { die("settle"); return nil }
				w.login()
				got := w.happened()
				// The unregister is queued by the close, whenever that is.
				if sorted(got) != sorted(c.want) {
					t.Errorf("happened: %s\nwant:     %s", got, c.want)
				}
				if w.reg.Len() != 0 || w.reg.Active() != 0 {
					t.Errorf("%d sessions left", w.reg.Len())
				}
			})
		})
	}
}

func sorted(log string) string {
	words := strings.Fields(log)
	for i := range words {
		for j := range i {
			if words[i] < words[j] {
				words[i], words[j] = words[j], words[i]
			}
		}
	}
	return strings.Join(words, " ")
}

func TestI12_ActivationsAtWorkAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		gate := make(chan struct{})
		w.register = func() ([]presence.Conflict, error) { <-gate; return nil, fault.ErrUnavailable }
		sessions := []interface{ Closed(fault.CloseCode) }{}
		for range 6 {
			s := w.host.Open(w)
			sessions = append(sessions, s)
			s.Message([]byte(`{"id":1,"route":1,"payload":{"ticket":"t"}}`))
		}
		synctest.Wait()
		if n := w.act.Stats().AtWork; n != 4 {
			t.Errorf("%d at work", n)
		}
		close(gate)
		synctest.Wait()
		if n := w.act.Stats().AtWork; n != 0 {
			t.Errorf("%d at work in the end", n)
		}
		for _, s := range sessions {
			s.Closed(0)
		}
	})
}
