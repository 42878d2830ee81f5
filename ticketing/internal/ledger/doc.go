// Package ledger keeps which tickets are used up: I5, a ticket authenticates once, cluster-wide.
//
// A ticket has one key, its id, in a JetStream bucket. Writes are conditional on the key's last
// sequence, so of two redeems only one can be stored. A write whose answer was lost is settled by
// reading through the stream's leader: what is found there under the own session counts as done.
//
// Records:
//
//	{"state":"redeemed","session":S}  used up by S; lives as long as the ticket could
//	{"state":"released","session":S}  S failed after all; anyone but S may redeem. It lives for
//	                                  ReleaseTTL, longer than a late redeem of S is on its way.
//
// A Ledger is safe for concurrent use.
package ledger
