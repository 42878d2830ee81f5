package bench

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms hold 1 us to 60 s with three significant figures; a longer one counts as 60 s.
const (
	minLatency = int64(time.Microsecond)
	maxLatency = int64(time.Minute)
	figures    = 3
)

// recorder is a histogram for several goroutines.
type recorder struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram
}

func newRecorder() *recorder { return &recorder{h: newHistogram()} }

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(minLatency, maxLatency, figures)
}

func (r *recorder) record(d time.Duration) {
	v := min(max(int64(d), minLatency), maxLatency)
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.h.RecordValue(v) // in range by construction
}

// take returns what was recorded and starts anew.
func (r *recorder) take() *hdrhistogram.Histogram {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.h
	r.h = newHistogram()
	return h
}

// Latency sums a histogram up, in microseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_us"`
	P50   float64 `json:"p50_us"`
	P90   float64 `json:"p90_us"`
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Max   float64 `json:"max_us"`
}

func summarize(h *hdrhistogram.Histogram) *Latency {
	us := func(v int64) float64 { return float64(v) / 1000 }
	return &Latency{
		Count: h.TotalCount(),
		Mean:  h.Mean() / 1000,
		P50:   us(h.ValueAtQuantile(50)),
		P90:   us(h.ValueAtQuantile(90)),
		P99:   us(h.ValueAtQuantile(99)),
		P999:  us(h.ValueAtQuantile(99.9)),
		Max:   us(h.Max()),
	}
}
