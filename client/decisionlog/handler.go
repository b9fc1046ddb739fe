// Package decisionlog makes a structured logger of a client: each log record is
// one decision.
//
//	log := slog.New(decisionlog.NewHandler(c, nil))
//	log.Warn("image has no digest",
//		"kind", "K8sImageDigests", "name", "digests",
//		"resourceKind", "Pod", "resourceName", "cart-7d9",
//		"image", "registry.example.test/cart:latest")
//
// An attribute outside of any group that is named like a field of
// decision.Record, by its JSON name, sets that field: kind, name, resourceKind
// and resourceName above. Every other attribute and every group becomes a member
// of the record's details, the image above. The log record's message and time
// become message and timestamp, unless attributes of these names are given.
//
// The field decision is the attribute of that name or else follows from the
// level: deny from slog.LevelError on, warn from slog.LevelWarn on, and allow
// below. So a program should log its decisions, and nothing else, here.
//
// A value of the wrong type for its field becomes a member of details under its name. So does a
// value that the field does not allow, such as the decision "maybe". No attribute stops a decision
// from being logged. Of two attributes with one name the later counts; two groups with one name are
// one group.
//
//	handler.go  Handler
//	details.go  attributes that set a field, or become JSON
package decisionlog

import (
	"context"
	"log/slog"
	"reflect"
	"slices"

	"github.com/docket-export/docket/decision"
)

// Exporter takes the records of a Handler. *client.Client is one. Export must not keep
// r when it returns. Calls may overlap.
type Exporter interface {
	Export(ctx context.Context, r *decision.Record) error
}

// Options configure a Handler. The zero value is the default.
type Options struct {
	// Level is the least level that is exported. nil: slog.LevelInfo. It is
	// asked for each record, so a *slog.LevelVar can be moved at any time.
	Level slog.Leveler
}

// Handler is a slog.Handler whose records are decisions.
type Handler struct {
	to     Exporter // nil: off
	level  slog.Leveler
	record decision.Record // the fields that WithAttrs has set
	// details are the members that WithAttrs has set. They are shared with other
	// handlers, so they are copied before they change.
	details object
	groups  []string // of WithGroup, the outermost first
}

// NewHandler returns a handler that hands each record to e. With a nil e, a nil
// *client.Client included, logging is off: Enabled is false, and a logger then
// does not even evaluate its attributes. nil options are the default ones.
func NewHandler(e Exporter, options *Options) *Handler {
	if options == nil {
		options = &Options{}
	}
	h := &Handler{level: options.Level, details: make(object)}
	if h.level == nil {
		h.level = slog.LevelInfo
	}
	if v := reflect.ValueOf(e); v.IsValid() && !(v.Kind() == reflect.Pointer && v.IsNil()) {
		h.to = e
	}
	return h
}

// Enabled reports whether records of this level are exported.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool {
	return h.to != nil && level >= h.level.Level()
}

// Handle exports r as one decision and returns the error of Export, which slog.Logger
// drops: if you must know whether a decision is durable, ask the client itself. Whether
// Handle waits is a matter of the client's mode.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if h.to == nil {
		return nil
	}
	b := builder{record: h.record, details: h.details.clone(), groups: h.groups}
	r.Attrs(func(a slog.Attr) bool {
		b.add(a)
		return true
	})
	if b.record.Message == "" {
		b.record.Message = r.Message
	}
	if b.record.Timestamp.IsZero() && !r.Time.IsZero() {
		setField(&b.record, "timestamp", encodeAny(r.Time)) // unless a record cannot hold it
	}
	if b.record.Decision == "" {
		b.record.Decision = byLevel(r.Level)
	}
	b.record.Details = b.details.encode()
	return h.to.Export(ctx, &b.record)
}

func byLevel(level slog.Level) decision.Decision {
	switch {
	case level >= slog.LevelError:
		return decision.Deny
	case level >= slog.LevelWarn:
		return decision.Warn
	}
	return decision.Allow
}

// WithAttrs returns a handler that adds attrs to each record. They are resolved
// and encoded now.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	b := builder{record: h.record, details: h.details.clone(), groups: h.groups}
	for _, a := range attrs {
		b.add(a)
	}
	with := *h
	with.record, with.details = b.record, b.details
	return &with
}

// WithGroup returns a handler that puts the attributes to come into a group of
// details. They set no fields.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.groups = append(slices.Clip(h.groups), name)
	return &with
}

// builder makes a record of attributes.
type builder struct {
	record  decision.Record
	details object
	groups  []string
}

// add adds an attribute in the groups that are open.
func (b *builder) add(a slog.Attr) {
	if len(b.groups) > 0 {
		in := b.details
		for _, name := range b.groups {
			in = in.group(name)
		}
		in.add(a)
		return
	}
	a.Value = a.Value.Resolve()
	if a.Key == "" && a.Value.Kind() == slog.KindGroup {
		for _, member := range a.Value.Group() {
			b.add(member)
		}
		return
	}
	if a.Key == "details" {
		b.details.addDetails(a.Value)
		return
	}
	if a.Key == "durationSeconds" && a.Value.Kind() == slog.KindDuration {
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	}
	if a.Value.Kind() == slog.KindGroup || a.Equal(slog.Attr{}) {
		b.details.add(a)
	} else if value := encode(a.Value); !setField(&b.record, a.Key, value) {
		b.details[a.Key] = value
	}
}
