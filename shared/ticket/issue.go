package ticket

// IssueRequest is the JSON of sy.v1.ticket.issue and POST /v1/tickets.
type IssueRequest struct {
	Identity IssueIdentity `json:"identity"`
	Device   *Device       `json:"device,omitempty"`
	Groups   []string      `json:"groups,omitempty"`
}

// IssueIdentity is an identity whose generation may be left out (0): the account's current one.
type IssueIdentity struct {
	AccountID  string `json:"account_id"`
	UserID     string `json:"user_id"`
	RegionID   string `json:"region_id"`
	RealmID    string `json:"realm_id"`
	Generation int64  `json:"generation,omitempty"`
}

// IssueReply is the answer to an IssueRequest.
type IssueReply struct {
	Ticket           string `json:"ticket"`
	ExpiresInSeconds int64  `json:"expires_in_seconds"`
}
