package kafkasink

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/docket-export/docket/sinks"
)

// committed is a position in Kafka: the offset of partition 0 of the sink's first topic,
// in the group of the sink. The offset is Next, and its metadata say the rest:
//
//	1 owner=2f9ad05c3e61b874 started=1790000000123456789 sent=31 replayed=0 received=1790000000023456789
//
// A version that cannot be read by this docket begins with another number.
type committed struct {
	sinks.Position
	owner owner
	sent  uint64 // transactions of the owner, this one included
}

// exists says whether there is such a position in Kafka.
func (c *committed) exists() bool { return c.owner.id != "" }

// owner is the sink, of one process, that has committed a position.
type owner struct {
	id      string // random, another for each claim
	started int64  // Unix nanoseconds of when it was made
}

func newOwnerID() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// metadata is what goes beside the offset.
func (c *committed) metadata() string {
	received := int64(0)
	if !c.Received.IsZero() {
		received = c.Received.UnixNano()
	}
	return fmt.Sprintf("1 owner=%s started=%d sent=%d replayed=%d received=%d",
		c.owner.id, c.owner.started, c.sent, c.Replayed, received)
}

// parseCommitted returns the position of an offset. ok is false where docket has not
// written it: somebody has reset the offsets of the group.
func parseCommitted(o offset) (c committed, ok bool, err error) {
	version, rest, _ := strings.Cut(o.metadata, " ")
	switch {
	case version == "" || strings.Trim(version, "0123456789") != "":
		return c, false, nil
	case version != "1":
		return c, false, sinks.Failf(sinks.Misconfigured,
			"the position in Kafka has version %s: a newer docket wrote it, and this docket cannot read it", version)
	}
	var received int64
	if _, err := fmt.Sscanf(rest, "owner=%16s started=%d sent=%d replayed=%d received=%d",
		&c.owner.id, &c.owner.started, &c.sent, &c.Replayed, &received); err != nil {
		return c, false, sinks.Failf(sinks.Misconfigured, "the position in Kafka cannot be read: its metadata are %s", excerpt(o.metadata))
	}
	c.Next = uint64(o.next)
	if received != 0 {
		c.Received = time.Unix(0, received).UTC()
	}
	return c, true, nil
}

// isBehind says whether c counts and not o: a sink whose first topic was another one has
// left an offset there.
func (c *committed) isBehind(o committed) bool {
	return !o.exists() || c.Replayed > o.Replayed || c.Replayed == o.Replayed && c.Next > o.Next
}
