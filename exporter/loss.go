package exporter

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/exporter/queue"
)

// lossPrefix begins a loss record, in which a producer says how many records it
// had to let go before they reached the exporter:
//
//	{"eventType":"docket.loss",...,"lost":{"deny":3,"allow":120},...}
//
// It is stored as any record, and the ledger counts what it says. A line that does
// not begin with these very bytes is not looked into.
var lossPrefix = []byte(`{"eventType":"docket.loss",`)

// Bounds of a loss record, so that it costs little to read: four times the
// decisions there are, and names as long as a label of the metrics should be.
const (
	maxLossNames     = 16
	maxLossNameBytes = 64
)

// lossNames are what the ledger calls lost records: by their decision, "unspecified"
// without one. The last is for every other name: what producers make up must not
// grow the ledger, which is kept for ever.
var lossNames = [...]string{
	string(decision.Deny), string(decision.Error), string(decision.Warn), string(decision.DryRun), string(decision.Allow), "unspecified", "other",
}

// losses counts lost records; losses[i] are those of lossNames[i], at most
// queue.MaxLost.
type losses [len(lossNames)]uint64

func (l *losses) add(o losses) {
	for i, n := range o {
		l[i] = min(l[i]+n, queue.MaxLost)
	}
}

// tallies appends the losses that are not zero to dst.
func (l *losses) tallies(dst []queue.Tally) []queue.Tally {
	for i, n := range l {
		if n > 0 {
			dst = append(dst, queue.Tally{Name: lossNames[i], Count: n})
		}
	}
	return dst
}

// parseLoss returns the losses that a loss record reports. The line must be valid JSON. A
// record that does not keep to its form reports nothing: half of what a producer
// meant to say would be a wrong number in the ledger. The error quotes nothing of it: it is
// logged, and the record may be one that is to be redacted.
func parseLoss(line []byte) (losses, error) {
	lost := rawjson.Member(line, "lost")
	if lost.Kind() != rawjson.Object {
		return losses{}, errors.New(`"lost" must be an object: counts by decision`)
	}
	var l losses
	seen := make([]string, 0, maxLossNames)
	for text, count := range rawjson.Members(lost) {
		name := string(text)
		switch {
		case len(seen) == maxLossNames:
			return losses{}, fmt.Errorf(`"lost" has more than %d members`, maxLossNames)
		case slices.Contains(seen, name):
			return losses{}, errors.New(`"lost" has a name twice`)
		}
		seen = append(seen, name)
		if err := l.addMember(name, string(count)); err != nil {
			return losses{}, err
		}
	}
	return l, nil
}

// addMember adds the losses of one member of "lost".
func (l *losses) addMember(name, count string) error {
	if len(name) > maxLossNameBytes {
		return fmt.Errorf(`"lost" has a name of %d bytes, at most %d are allowed`, len(name), maxLossNameBytes)
	}
	n, err := strconv.ParseUint(count, 10, 64) // takes no sign, fraction, exponent or quotes
	if err != nil || n > queue.MaxLost {
		return fmt.Errorf(`each count in "lost" must be a whole number, at most %d`, uint64(queue.MaxLost))
	}
	i := slices.Index(lossNames[:], name)
	if i < 0 {
		i = len(lossNames) - 1
	}
	l[i] = min(l[i]+n, queue.MaxLost)
	return nil
}

// countLoss adds the losses that a record reports to the chunk that stores it.
func (v *verdict) countLoss(line []byte) {
	l, err := parseLoss(line)
	if err != nil {
		in := v.s.in
		in.oddLoss.Do(func() {
			in.log.Warn("loss record cannot be read: it is stored, but its losses are not counted; similar records are not logged",
				"source", v.s.opening.Source, "producer", v.s.opening.Producer, "error", err)
		})
		return
	}
	v.lost.add(l)
}
