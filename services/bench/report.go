package bench

// Report is the result of a run; `--json` prints it as it is.
type Report struct {
	Scenario string     `json:"scenario"`
	Sessions int        `json:"sessions"`
	Gateways int        `json:"gateways"`
	Logins   *Logins    `json:"logins,omitempty"`
	Pushes   *Pushes    `json:"pushes,omitempty"`
	Process  []*Process `json:"processes,omitempty"`
	// Closed counts sessions that ended during the run without being asked to.
	Closed int64 `json:"closed"`
}

// Logins says how the fleet got in.
type Logins struct {
	Done      int            `json:"done"`
	Failed    int            `json:"failed"`
	Failures  map[string]int `json:"failures,omitempty"`
	Seconds   float64        `json:"seconds"`
	PerSecond float64        `json:"per_second"`
	Latency   *Latency       `json:"latency"`
}

// Pushes says what was sent and what arrived.
type Pushes struct {
	Requests  int     `json:"requests"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"requests_per_second"`
	Replies   int64   `json:"replies"`
	Faults    int64   `json:"faults"`    // error replies
	Delivered int64   `json:"delivered"` // sessions, as replies say
	Missed    int64   `json:"missed"`    // users, as replies say
	Received  int64   `json:"received"`  // messages, as clients saw
	// ReceivedPerSecond counts messages at the clients over the time of sending.
	ReceivedPerSecond float64  `json:"received_per_second"`
	Latency           *Latency `json:"latency"`       // due to received by the client
	ReplyLatency      *Latency `json:"reply_latency"` // due to the reply at the sender
}
