package decision

import (
	"errors"
	"fmt"
	"slices"
)

// Copy is a copy of a Record whose line is made later, so that logging a decision does
// not wait for the encoding. You may use the record again at once. Strings are shared,
// because they never change; everything else that a record points to is copied. The zero
// value is a copy of an empty record. A Copy must not be copied itself after Set.
type Copy struct {
	record  Record   // without its maps
	maps    pairMaps // instead
	maxLine int

	// room has the details, texts and pairs that record and the two lists point to,
	// where there is room for them; the others are allocated. Set only writes to a Copy,
	// so it does not wait for memory that another processor has used last.
	room struct {
		details [256]byte
		texts   [8]string
		pairs   [8]pair
		dryRun  bool
	}
}

// Set makes c a copy of r instead of the record before. It returns the error that
// r.AppendLine would; c must be set again then.
func (c *Copy) Set(r *Record) error {
	if !r.valid() {
		return r.invalid()
	}
	c.record = *r
	c.record.Details = append(c.room.details[:0], r.Details...)
	if r.DryRun != nil {
		c.room.dryRun = *r.DryRun
		c.record.DryRun = &c.room.dryRun
	}
	actions := len(r.EnforcementActions)
	groups := actions + len(r.RequestUserGroups)
	warnings := groups + len(r.Warnings)
	texts := append(append(c.room.texts[:0], r.EnforcementActions...), r.RequestUserGroups...)
	texts = append(append(texts, r.Warnings...), r.Omitted...)
	c.record.EnforcementActions, c.record.RequestUserGroups = texts[:actions], texts[actions:groups]
	c.record.Warnings, c.record.Omitted = texts[groups:warnings], texts[warnings:]
	pairs := appendPairs(c.room.pairs[:0], r.ConstraintAnnotations)
	annotations := len(pairs)
	pairs = appendPairs(pairs, r.ResourceLabels)
	labels := len(pairs)
	pairs = appendPairs(pairs, r.AuditAnnotations)
	c.maps = pairMaps{pairs[:annotations], pairs[annotations:labels], pairs[labels:]}
	c.record.ConstraintAnnotations, c.record.ResourceLabels, c.record.AuditAnnotations = nil, nil, nil
	c.record.Object, c.record.OldObject, c.record.Patch = slices.Clone(r.Object), slices.Clone(r.OldObject), slices.Clone(r.Patch)
	c.maxLine = bound(r, texts, pairs)
	return nil
}

// Forget releases the strings. c is then a copy of an empty record.
func (c *Copy) Forget() { *c = Copy{} }

// AppendLine appends what AppendLine of the record would. It does not change c.
func (c *Copy) AppendLine(dst []byte) []byte {
	return c.record.appendLine(dst, &c.maps)
}

// MaxLine is an upper bound of what AppendLine appends, and of the memory of c with its
// strings. It is a cheap estimate, several times the length of a usual line.
func (c *Copy) MaxLine() int { return max(c.maxLine, maxNames) }

const (
	// maxNames is more than the names of all members take, with what stands
	// between them and the values that are no text; and no less than a Copy.
	maxNames = 1536
	// maxEscape is what one byte of text takes at most: \u0000.
	maxEscape = 6
	// perText is what one of several texts takes beside its bytes, in escapes: no
	// less than its quotes and separators, and than a string of no bytes.
	perText = 3
)

// bound computes MaxLine of a copy of r. texts and pairs are all that its lists and
// maps have.
func bound(r *Record, texts []string, pairs []pair) int {
	text := len(r.ID) + len(r.EventType) + len(r.Group) + len(r.Version) + len(r.Kind) + len(r.Name) + len(r.Namespace) +
		len(r.Message) + len(r.EnforcementAction) + len(r.ResourceGroup) + len(r.ResourceAPIVersion) + len(r.ResourceKind) +
		len(r.ResourceNamespace) + len(r.ResourceName) + len(r.Operation) + len(r.RequestResource) + len(r.RequestSubresource) +
		len(r.RequestUsername) + len(r.RequestUserUID) + len(r.Cluster) + len(r.Pod) + len(r.AuditID) + len(r.RequestUID) +
		len(r.Template) + len(r.ResourceUID) + len(r.PatchType) + len(r.WebhookPath) + len(r.Failure)
	for _, s := range texts {
		text += len(s) + perText
	}
	for _, p := range pairs {
		text += len(p.key) + len(p.value) + 2*perText
	}
	return maxNames + len(r.Details) + len(r.Object) + len(r.OldObject) + len(r.Patch) + maxEscape*text
}

// valid reports whether r has no faults.
func (r *Record) valid() bool {
	if !r.Decision.known() || !r.Process.known() {
		return false
	}
	if !validRaw(r.Details) || !validRaw(r.Object) || !validRaw(r.OldObject) || !validRaw(r.Patch) || !finite(r.DurationSeconds) {
		return false
	}
	return r.Timestamp.IsZero() || isUTC(r.Timestamp) || checkTimestamp(r.Timestamp) == nil
}

// invalid says why r is not valid.
func (r *Record) invalid() error {
	return fmt.Errorf("record: %w", errors.Join(r.faults()...))
}
