package decision

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/docket-export/docket/decision/rawjson"
)

// reviewPart is a member of an AdmissionReview that a record needs, or that holds others.
type reviewPart struct {
	path     string       // of names, joined by dots
	kind     rawjson.Kind // of the API's type; Invalid: any
	field    string       // of the record that does without it where it is too large
	nullable bool         // null takes back what stood before, as the type is a pointer, a list or a map
	content  Content      // it is kept only where that was asked for
	skip     bool         // it is never kept
	// set takes the value, which is empty if it was not kept, and nil for null. It is called for an object
	// that others are looked for in when it begins.
	set func(r *ReviewReader, v rawjson.Value)

	around *reviewPart
	inner  bool    // others are looked for in it
	bits   partSet // its own, and those of what is in it
}

// partSet has a bit for each of reviewParts.
type partSet uint64

// reviewParts have the types that k8s.io/api/admission/v1/types.go gives them. Null that takes nothing
// back says nothing, as it does when the API server decodes an answer.
var reviewParts = []*reviewPart{
	{path: "", kind: rawjson.Object},
	{path: "kind", kind: rawjson.String, set: text(func(r *ReviewReader) *string { return &r.kind })},
	{path: "apiVersion", kind: rawjson.String, set: text(func(r *ReviewReader) *string { return &r.apiVersion })},

	{path: "request", kind: rawjson.Object, nullable: true, set: func(r *ReviewReader, v rawjson.Value) {
		if v == nil {
			r.asked = reviewRequest{}
		}
	}},
	{path: "request.uid", kind: rawjson.String, set: text(func(r *ReviewReader) *string { return &r.asked.RequestUID })},
	{path: "request.kind", kind: rawjson.Object},
	{path: "request.kind.group", kind: rawjson.String, field: "resourceGroup", set: text(func(r *ReviewReader) *string { return &r.asked.ResourceGroup })},
	{path: "request.kind.version", kind: rawjson.String, field: "resourceAPIVersion", set: text(func(r *ReviewReader) *string { return &r.asked.ResourceAPIVersion })},
	{path: "request.kind.kind", kind: rawjson.String, field: "resourceKind", set: text(func(r *ReviewReader) *string { return &r.asked.ResourceKind })},
	{path: "request.resource", kind: rawjson.Object},
	{path: "request.resource.resource", kind: rawjson.String, field: "requestResource", set: text(func(r *ReviewReader) *string { return &r.asked.RequestResource })},
	{path: "request.subResource", kind: rawjson.String, field: "requestSubresource", set: text(func(r *ReviewReader) *string { return &r.asked.RequestSubresource })},
	{path: "request.requestResource", kind: rawjson.Object, nullable: true, set: func(r *ReviewReader, v rawjson.Value) {
		if r.asked.converted = v != nil; v == nil {
			r.asked.original = ""
		}
	}},
	{path: "request.requestResource.resource", kind: rawjson.String, field: "requestResource", set: text(func(r *ReviewReader) *string { return &r.asked.original })},
	{path: "request.requestSubResource", kind: rawjson.String, field: "requestSubresource", set: text(func(r *ReviewReader) *string { return &r.asked.originalSub })},
	{path: "request.namespace", kind: rawjson.String, field: "resourceNamespace", set: text(func(r *ReviewReader) *string { return &r.asked.ResourceNamespace })},
	{path: "request.name", kind: rawjson.String, field: "resourceName", set: text(func(r *ReviewReader) *string { return &r.asked.ResourceName })},
	{path: "request.operation", kind: rawjson.String, field: "operation", set: text(func(r *ReviewReader) *string { return &r.asked.Operation })},
	{path: "request.userInfo", kind: rawjson.Object},
	{path: "request.userInfo.username", kind: rawjson.String, field: "requestUsername", set: text(func(r *ReviewReader) *string { return &r.asked.RequestUsername })},
	{path: "request.userInfo.uid", kind: rawjson.String, field: "requestUserUID", set: text(func(r *ReviewReader) *string { return &r.asked.RequestUserUID })},
	{path: "request.userInfo.groups", kind: rawjson.Array, nullable: true, field: "requestUserGroups", set: func(r *ReviewReader, v rawjson.Value) { r.asked.RequestUserGroups = stringsOf(v) }},
	{path: "request.userInfo.extra", skip: true},
	{path: "request.dryRun", kind: rawjson.Boolean, nullable: true, set: func(r *ReviewReader, v rawjson.Value) {
		value := string(v) == "true"
		if r.asked.DryRun = &value; len(v) == 0 {
			r.asked.DryRun = nil
		}
	}},
	{path: "request.object", content: ContentObject, field: "object", set: func(r *ReviewReader, v rawjson.Value) { r.asked.Object = append([]byte(nil), v...) }},
	{path: "request.oldObject", content: ContentOldObject, field: "oldObject", set: func(r *ReviewReader, v rawjson.Value) { r.asked.OldObject = append([]byte(nil), v...) }},
	{path: "request.options", skip: true},

	{path: "response", kind: rawjson.Object, nullable: true, set: func(r *ReviewReader, v rawjson.Value) {
		if r.answered.given = v != nil; v == nil {
			r.answered = reviewResponse{}
		}
	}},
	{path: "response.uid", kind: rawjson.String, set: text(func(r *ReviewReader) *string { return &r.answered.uid })},
	{path: "response.allowed", kind: rawjson.Boolean, set: func(r *ReviewReader, v rawjson.Value) {
		r.answered.allowed, r.answered.unclear = string(v) == "true", len(v) == 0 // by values that stand in it again and again
	}},
	{path: "response.status", kind: rawjson.Object, nullable: true, set: func(r *ReviewReader, v rawjson.Value) {
		if v == nil {
			r.answered.Code, r.answered.Message, r.answered.reason = 0, "", ""
		}
	}},
	{path: "response.status.code", kind: rawjson.Number, set: func(r *ReviewReader, v rawjson.Value) { r.answered.Code, _ = strconv.Atoi(string(v)) }}, // 0 without one
	{path: "response.status.message", kind: rawjson.String, field: "message", set: text(func(r *ReviewReader) *string { return &r.answered.Message })},
	{path: "response.status.reason", kind: rawjson.String, field: "message", set: text(func(r *ReviewReader) *string { return &r.answered.reason })},
	{path: "response.warnings", kind: rawjson.Array, nullable: true, field: "warnings", set: func(r *ReviewReader, v rawjson.Value) {
		r.answered.Warnings = stringsOf(v)
		r.answered.warned = len(r.answered.Warnings) > 0 || v != nil && len(v) == 0
	}},
	{path: "response.auditAnnotations", kind: rawjson.Object, nullable: true, field: "auditAnnotations", set: func(r *ReviewReader, v rawjson.Value) {
		r.answered.AuditAnnotations = nil
		for name, text := range rawjson.Members(v) {
			if r.answered.AuditAnnotations == nil {
				r.answered.AuditAnnotations = make(map[string]string)
			}
			r.answered.AuditAnnotations[string(name)] = string(text.Text())
		}
	}},
	{path: "response.patchType", kind: rawjson.String, nullable: true, field: "patchType", set: text(func(r *ReviewReader) *string { return &r.answered.PatchType })},
	{path: "response.patch", kind: rawjson.String, nullable: true, content: ContentPatch, field: "patch", set: func(r *ReviewReader, v rawjson.Value) {
		if r.answered.PatchBytes = r.patch.bytes(); v == nil {
			r.answered.PatchBytes = 0
		}
		r.answered.patch = append([]byte(nil), v.Text()...)
	}},
}

// text has a string kept.
func text(field func(r *ReviewReader) *string) func(*ReviewReader, rawjson.Value) {
	return func(r *ReviewReader, v rawjson.Value) { *field(r) = string(v.Text()) }
}

// stringsOf returns those of an array, null among them as "".
func stringsOf(array rawjson.Value) (list []string) {
	for item := range rawjson.Items(array) {
		list = append(list, string(item.Text()))
	}
	return list
}

// reviewMembers are the parts by the one around them and their name.
var reviewMembers = indexReviewParts()

type reviewMember struct {
	around *reviewPart
	name   string
}

func indexReviewParts() map[reviewMember]*reviewPart {
	byPath, members := make(map[string]*reviewPart), make(map[reviewMember]*reviewPart)
	for i, p := range reviewParts {
		byPath[p.path] = p
		for whole := p; whole.path != ""; whole = whole.around {
			around, name := "", whole.path
			if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
				around, name = name[:dot], name[dot+1:]
			}
			whole.around, whole.bits = byPath[around], whole.bits|1<<i
			whole.around.inner = true
			members[reviewMember{whole.around, name}] = whole
		}
	}
	return members
}

// check says why value, whose kind is that of p, is not of the API's type all the same.
func (p *reviewPart) check(value rawjson.Value) error {
	switch p.kind {
	case rawjson.Number:
		if _, err := strconv.ParseInt(string(value), 10, 32); err != nil {
			return p.errorf("must be a whole number of 32 bits")
		}
	case rawjson.Array:
		for item := range rawjson.Items(value) {
			if err := p.checkText(item); err != nil {
				return err
			}
		}
	case rawjson.Object:
		for _, text := range rawjson.Members(value) {
			if err := p.checkText(text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *reviewPart) checkText(v rawjson.Value) error {
	if kind := v.Kind(); kind != rawjson.String && kind != rawjson.Null {
		return p.errorf("must have strings, not %s", article(kind))
	}
	return nil
}

func (p *reviewPart) errorf(format string, args ...any) error {
	return fmt.Errorf("is not an AdmissionReview: "+p.path+" "+format, args...)
}

// article is what a message calls a kind.
func article(k rawjson.Kind) string {
	switch k {
	case rawjson.Array, rawjson.Object:
		return "an " + k.String()
	}
	return "a " + k.String()
}
