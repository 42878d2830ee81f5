// Package membership says who lives: every process life of a service announces itself with
// beacons, and a Tracker turns the beacons of all into a view of the cluster (DESIGN.md section 2).
//
//	Announcer  publishes a wirepb.Beacon each BeaconInterval, and answers the life's private probe
//	Tracker    hears all beacons; asks the private probe of a life that went silent
//
// A life is gone when its beacons stopped and nobody answers on its private subject ("no
// responders": its process or its connection died), when it said "stopped", or when it has been
// silent for the hang timeout. Views of different trackers differ for moments; nothing that must
// be exact may rest on them (slot leadership rests on the term).
//
// A Tracker never judges others by its own trouble: after a reconnect or a pause of its own
// process everyone gets a new grace.
//
// Everything exported is safe for concurrent use.
package membership
