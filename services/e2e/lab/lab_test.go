package lab

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestELR2FrameIsLaidOutAsWritten(t *testing.T) {
	got := ELR2Frame(1, 300, 7, 9, []byte("xy"))
	want := []byte{
		0x45, 0x4c, 0x52, 0x32, 0, 2, 1, 0, // magic, version, kind, flags
		0, 0, 1, 44, // route
		0, 0, 0, 0, 0, 0, 0, 7, // request id
		0, 0, 0, 9, // sequence
		0, 0, 0, 2, 'x', 'y', // payload
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("% x, want % x", got, want)
	}
	m, err := parseELR2(got)
	if err != nil || m.Kind != "request" || m.Route != 300 || m.ID != 7 || m.Seq != 9 || string(m.Payload) != "xy" {
		t.Errorf("parsed %+v: %v", m, err)
	}
	for i := range 27 {
		if _, err := parseELR2(got[:i]); err == nil {
			t.Errorf("%d bytes were parsed", i)
		}
	}
}

func TestOutputKeepsTheLatest(t *testing.T) {
	w := &tail{}
	for range 3 {
		_, _ = w.Write(bytes.Repeat([]byte("x"), maxOutput/2)) // never fails
	}
	_, _ = w.Write([]byte("end"))
	if s := w.String(); len(s) != maxOutput || !strings.HasSuffix(s, "end") {
		t.Errorf("%d bytes kept", len(s))
	}
}

func TestEventuallyWaits(t *testing.T) {
	tries := 0
	Eventually(t, time.Minute, func() error {
		if tries++; tries < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if tries != 3 {
		t.Errorf("%d tries", tries)
	}
}
