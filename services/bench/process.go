package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// clockTicks is USER_HZ, the unit of the CPU times in /proc/<pid>/stat: 100 on every Linux.
const clockTicks = 100

// Process is what one watched process used.
type Process struct {
	PID         int     `json:"pid"`
	Name        string  `json:"name"`
	RSSBefore   int64   `json:"rss_before_bytes"`
	RSS         int64   `json:"rss_bytes"`
	CPUSeconds  float64 `json:"cpu_seconds"`
	Cores       float64 `json:"cores"` // CPU seconds a second
	PerSession  int64   `json:"rss_bytes_per_session,omitempty"`
	sampledAt   time.Time
	cpuAtSample float64
}

// watch reads the starting point of each process.
func watch(pids []int) ([]*Process, error) {
	var out []*Process
	for _, pid := range pids {
		rss, cpu, name, err := usage(pid)
		if err != nil {
			return nil, err
		}
		out = append(out, &Process{PID: pid, Name: name, RSSBefore: rss, RSS: rss, sampledAt: time.Now(), cpuAtSample: cpu})
	}
	return out, nil
}

// restart forgets the CPU used so far: what follows is measured.
func restart(ps []*Process) error {
	for _, p := range ps {
		_, cpu, _, err := usage(p.PID)
		if err != nil {
			return err
		}
		p.sampledAt, p.cpuAtSample = time.Now(), cpu
	}
	return nil
}

// finish reads the end point of each process.
func finish(ps []*Process) error {
	for _, p := range ps {
		rss, cpu, _, err := usage(p.PID)
		if err != nil {
			return err
		}
		p.RSS = rss
		p.CPUSeconds = cpu - p.cpuAtSample
		p.Cores = p.CPUSeconds / time.Since(p.sampledAt).Seconds()
	}
	return nil
}

// usage reads resident bytes and CPU seconds of a process (proc(5)).
func usage(pid int) (rss int64, cpu float64, name string, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, "", fmt.Errorf("bench: process %d: %w", pid, err)
	}
	// The name is in parentheses and may hold spaces; the fields after it are counted from 3.
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return 0, 0, "", fmt.Errorf("bench: process %d: unreadable stat", pid)
	}
	fields := bytes.Fields(stat[end+1:])
	const utime, stime, rssPages = 14 - 3, 15 - 3, 24 - 3
	if len(fields) <= rssPages {
		return 0, 0, "", fmt.Errorf("bench: process %d: short stat", pid)
	}
	var n [3]int64
	for i, at := range []int{utime, stime, rssPages} {
		if n[i], err = strconv.ParseInt(string(fields[at]), 10, 64); err != nil {
			return 0, 0, "", fmt.Errorf("bench: process %d: %w", pid, err)
		}
	}
	return n[2] * int64(os.Getpagesize()), float64(n[0]+n[1]) / clockTicks, string(stat[open+1 : end]), nil
}
