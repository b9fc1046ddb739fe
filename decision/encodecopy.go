package decision

import (
	"errors"
	"fmt"
)

// Copy is a copy of a Record, of which AppendLine makes the line later: the one who
// logs is spared the encoding, and may use the record again at once. Strings are
// shared, because they never change; what a record points to is copied. The zero
// value is a copy of an empty record. A Copy must not be copied itself after Set.
type Copy struct {
	record      Record // without its maps
	annotations []pair // in place of record.ConstraintAnnotations, in any order
	labels      []pair // in place of record.ResourceLabels, in any order
	maxLine     int

	// What record and the two lists point to. It is used again.
	details []byte
	texts   []string
	pairs   []pair
	dryRun  bool
}

// Set makes c a copy of r, in place of what it was. It returns the error that
// r.AppendLine would; c must be set again then.
func (c *Copy) Set(r *Record) error {
	if !r.valid() {
		return r.invalid()
	}
	c.record = *r
	c.details = append(c.details[:0], r.Details...)
	c.record.Details = c.details
	if r.DryRun != nil {
		c.dryRun = *r.DryRun
		c.record.DryRun = &c.dryRun
	}
	actions := len(r.EnforcementActions)
	c.texts = append(append(c.texts[:0], r.EnforcementActions...), r.RequestUserGroups...)
	c.record.EnforcementActions, c.record.RequestUserGroups = c.texts[:actions], c.texts[actions:]
	c.pairs = appendPairs(c.pairs[:0], r.ConstraintAnnotations)
	annotations := len(c.pairs)
	c.pairs = appendPairs(c.pairs, r.ResourceLabels)
	c.annotations, c.labels = c.pairs[:annotations], c.pairs[annotations:]
	c.record.ConstraintAnnotations, c.record.ResourceLabels = nil, nil
	c.maxLine = c.bound()
	return nil
}

// Forget lets go of the strings. c is then a copy of an empty record, with memory
// for a next one of usual size.
func (c *Copy) Forget() {
	if cap(c.details) > keepDetails || cap(c.texts)+cap(c.pairs) > keepStrings {
		*c = Copy{}
		return
	}
	clear(c.texts[:cap(c.texts)])
	clear(c.pairs[:cap(c.pairs)])
	*c = Copy{details: c.details[:0], texts: c.texts[:0], pairs: c.pairs[:0]}
}

// What Forget keeps at most: enough for most records.
const (
	keepDetails = 2 << 10
	keepStrings = 64
)

// AppendLine appends what AppendLine of the record would. It does not change c.
func (c *Copy) AppendLine(dst []byte) []byte {
	line, _ := c.record.appendMembers(dst, c.annotations, c.labels) // Set has looked for faults
	return endLine(line, len(dst))
}

// MaxLine is the most that AppendLine appends, and no less than the memory of c with
// its strings, but for what it keeps for a larger record. It is an estimate that
// costs little, several times as much as a usual line has.
func (c *Copy) MaxLine() int { return max(c.maxLine, maxNames) }

const (
	// maxNames is more than the names of all members take, with what stands
	// between them and the values that are no text; and more than a Copy.
	maxNames = 1 << 10
	// maxEscape is what one byte of text takes at most: \u0000.
	maxEscape = 6
	// perText is what one of several texts takes beside its bytes, in escapes: no
	// less than its quotes and separators, and than a string of no bytes.
	perText = 3
)

// bound computes MaxLine.
func (c *Copy) bound() int {
	r := &c.record
	text := len(r.ID) + len(r.EventType) + len(r.Group) + len(r.Version) + len(r.Kind) + len(r.Name) + len(r.Namespace) +
		len(r.Message) + len(r.EnforcementAction) + len(r.ResourceGroup) + len(r.ResourceAPIVersion) + len(r.ResourceKind) +
		len(r.ResourceNamespace) + len(r.ResourceName) + len(r.Operation) + len(r.RequestResource) + len(r.RequestSubresource) +
		len(r.RequestUsername) + len(r.RequestUserUID) + len(r.Cluster) + len(r.Pod) + len(r.AuditID) + len(r.RequestUID) +
		len(r.Template) + len(r.ResourceUID)
	for _, s := range c.texts {
		text += len(s) + perText
	}
	for _, p := range c.pairs {
		text += len(p.key) + len(p.value) + 2*perText
	}
	return maxNames + len(c.details) + maxEscape*text
}

// valid reports whether r has no faults.
func (r *Record) valid() bool {
	if !r.Decision.known() || !r.Process.known() {
		return false
	}
	if len(r.Details) > 0 {
		if valid, _ := scanJSON(r.Details); !valid {
			return false
		}
	}
	return r.Timestamp.IsZero() || isUTC(r.Timestamp) || checkTimestamp(r.Timestamp) == nil
}

// invalid says why r is not valid.
func (r *Record) invalid() error {
	return fmt.Errorf("record: %w", errors.Join(r.faults()...))
}
