// Package rpc is where the calls of gateways and of other authority nodes arrive: on the subjects
// of the hash slots that this node leads, and on the node's own batch subject.
//
// Every hash slot has one worker, so the calls about one user keep their order (I11); there are as
// many workers as cores. A slot's subject is a plain subscription: whoever still subscribes to a
// slot that moved hears its calls too, so a node that does not lead stays silent there. On the batch
// subject, which names this node's life, it always answers, and says who leads as far as it knows.
//
// Calls carry deadlines; one that comes too late is dropped and counted, since its caller has
// given up. Inboxes are bounded; what does not fit is dropped by the NATS client and counted.
package rpc
