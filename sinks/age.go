package sinks

import (
	"math/rand/v2"
	"time"
)

// largestAge is how long connections to a destination are used: names may have other addresses
// by then, a service other pods, and a client another certificate. A new login each few minutes
// costs nothing.
const largestAge = 5 * time.Minute

// ConnectionsUntil says until when connections that are made now are used. Sinks that start at
// once do not connect anew at once.
func ConnectionsUntil() time.Time {
	return time.Now().Add(largestAge - rand.N(largestAge/5))
}
