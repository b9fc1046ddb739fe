package inventory

import (
	"strings"
	"time"
)

// kind is what the name of a file says of it.
type kind uint8

const (
	foreign kind = iota
	// liveRun is <run id>.txt: an audit that Gatekeeper is writing, or has abandoned.
	liveRun
	// finishedRun is <run id>.log: an audit that Gatekeeper has ended.
	finishedRun
	// liveSegment is admission-<time>-<random>.open: one that Gatekeeper is writing.
	liveSegment
	// finishedSegment is the same as .log or .recovered.log.
	finishedSegment
	// doomedSegment is the same as .log.deleting: its retention is about to unlink it.
	doomedSegment
)

func (k kind) isRun() bool  { return k == liveRun || k == finishedRun }
func (k kind) isLive() bool { return k == liveRun || k == liveSegment }

const (
	segmentPrefix = "admission-"
	segmentTime   = "20060102T150405.000000000Z"
)

// fileName is a name that Gatekeeper gives to a file.
type fileName struct {
	kind kind
	// stem is what stays of the name while the file is written, finished and deleted.
	stem string
	at   time.Time // when the file was begun, for the order of reading
}

// parseName reads a name in a channel's directory. A name that Gatekeeper does not give
// is foreign.
func parseName(name string) fileName {
	if strings.HasPrefix(name, segmentPrefix) {
		return parseSegment(name)
	}
	k := finishedRun
	stem, ok := strings.CutSuffix(name, ".log")
	if !ok {
		k = liveRun
		if stem, ok = strings.CutSuffix(name, ".txt"); !ok {
			return fileName{}
		}
	}
	at, err := time.Parse(time.RFC3339, RunID(stem))
	if err != nil {
		return fileName{}
	}
	return fileName{kind: k, stem: stem, at: at}
}

func parseSegment(name string) fileName {
	stem, rest, _ := strings.Cut(name, "Z-")
	at, err := time.Parse(segmentTime, strings.TrimPrefix(stem, segmentPrefix)+"Z")
	random, suffix, ok := strings.Cut(rest, ".")
	if err != nil || !ok || random == "" {
		return fileName{}
	}
	n := fileName{stem: stem + "Z-" + random, at: at}
	switch suffix {
	case "open":
		n.kind = liveSegment
	case "log", "recovered.log":
		n.kind = finishedSegment
	case "log.deleting", "recovered.log.deleting":
		n.kind = doomedSegment
	default:
		return fileName{}
	}
	return n
}

// RunID is the id of the run whose file has the stem: Gatekeeper puts "_" for ":".
func RunID(stem string) string { return strings.ReplaceAll(stem, "_", ":") }
