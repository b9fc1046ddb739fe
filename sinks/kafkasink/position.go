package kafkasink

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/docket-export/docket/sinks"
)

// committed is a position in Kafka: the offset of partition 0 of the sink's first topic,
// in the group of the sink. The offset is Next, and its metadata say the rest:
//
//	2 owner=2f9ad05c3e61b874 started=1790000000123456789 sent=31 replayed=0 lineage=6f0c2a51-9d3e-4b7a-8f10-2c4d5e6f7a8b@1,...
//
// The lineage has the newest incarnations of the queue, with the first seq of each. Version 1 has
// none: the ids of all records began with the id of the queue then. A version that cannot be read
// by this docket begins with another number.
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
	var lineage []string
	for _, i := range c.Lineage.Before(c.Next).Newest(sinks.KeptIncarnations) {
		lineage = append(lineage, fmt.Sprintf("%s@%d", i.ID, i.First))
	}
	return fmt.Sprintf("2 owner=%s started=%d sent=%d replayed=%d lineage=%s",
		c.owner.id, c.owner.started, c.sent, c.Replayed, strings.Join(lineage, ","))
}

// parseLineage reads the lineage of metadata.
func parseLineage(text string) (l sinks.Lineage, err error) {
	for one := range strings.SplitSeq(text, ",") {
		id, first, _ := strings.Cut(one, "@")
		n, err := strconv.ParseUint(first, 10, 64)
		if err != nil || uuid.Validate(id) != nil {
			return nil, fmt.Errorf("incarnation %q", one)
		}
		l = l.Begin(id, n)
	}
	return l, nil
}

// parseCommitted returns the position of an offset. ok is false where docket has not
// written it: somebody has reset the offsets of the group. queue is the id of the queue.
func parseCommitted(o offset, queue string) (c committed, ok bool, err error) {
	version, rest, _ := strings.Cut(o.metadata, " ")
	switch {
	case version == "" || strings.Trim(version, "0123456789") != "":
		return c, false, nil
	case version != "1" && version != "2":
		return c, false, sinks.Failf(sinks.Misconfigured,
			"the position in Kafka has version %s: a newer docket wrote it, and this docket cannot read it", version)
	}
	c.Next = uint64(o.next)
	rest, text, ok := strings.Cut(rest, " lineage=")
	_, err = fmt.Sscanf(rest, "owner=%16s started=%d sent=%d replayed=%d", &c.owner.id, &c.owner.started, &c.sent, &c.Replayed)
	switch {
	case err == nil && version == "1":
		c.Lineage = sinks.Lineage{{ID: queue, First: 1}}
	case err == nil && text != "":
		c.Lineage, err = parseLineage(text)
	case err == nil && !ok:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return c, false, sinks.Failf(sinks.Misconfigured, "the position in Kafka cannot be read: its metadata are %s", sinks.AnswerText(o.metadata))
	}
	return c, true, nil
}

// isBehind says whether c counts and not o: a sink whose first topic was another one has
// left an offset there.
func (c *committed) isBehind(o committed) bool {
	return !o.exists() || c.Replayed > o.Replayed || c.Replayed == o.Replayed && c.Next > o.Next
}
