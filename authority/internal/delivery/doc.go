// Package delivery carries pushes and actions from a slot's leader to the gateways that own the
// sessions.
//
// Each owner (one life of one gateway) has a link: a bounded queue in order of arrival (I11),
// emptied by one goroutine that runs only while something is queued. It sends what has gathered as
// one owner-push batch, consecutive parcels of one push sharing its payload. Results come back
// address by address; those that wait for a client's acknowledgement come later, on the same call.
//
//	Send -> queue (QueueParcels, QueueBytes) -> batch (BatchParcels, BatchBytes) -> call (InFlight, AckParcels)
//
// Every parcel is answered exactly once: by the owner, as stale when the owner's life is known to be
// over, as overflow when a bound is reached, or as unanswered: at its deadline, in the queue too, and
// when nobody hears the owner's subject.
//
// Everything exported is safe for concurrent use.
package delivery
