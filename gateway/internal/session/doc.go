// Package session is the client protocol of one connection (PROTOCOL.md section 2): what may be
// said when, and what is answered. It knows the transport and the registry; who a client is and
// where its presence lives is decided by an Activator.
//
//	Open -> connected --route 1--> authenticating --Announce--> active
//	           ^                        |
//	           +------- refused --------+            any --> closed (final)
//
// A session costs no goroutine: frames are handled on the transport's reading goroutine, pushes
// on their sender's, and one timer serves the authentication deadline, then heartbeats and the
// idle timeout. Only an authenticate or renew under way has a goroutine, because it waits for
// other services while the connection must be read on.
//
// Session implements owner.Session: pushes are numbered from 1 without gaps under the session's
// mutex, and nothing is accepted once End has returned (I1). A push that comes between the commit
// of the route and the answer to the client is held, and follows the answer.
//
// Lock order: Session.mu, then a registry shard or the transport's. Groups and Routes are called
// without Session.mu. All methods of Session and Host are safe for concurrent use, but for those
// that the transport calls one after the other (Message, Active, Closed).
package session
