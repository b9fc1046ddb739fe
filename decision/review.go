package decision

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/docket-export/docket/decision/rawjson"
)

// Content is a part of an admission review that may hold secrets. A record has it only
// where it is asked for.
type Content string

// The contents.
const (
	ContentObject    Content = "object"
	ContentOldObject Content = "oldObject"
	ContentPatch     Content = "patch"
)

// ErrNotReview says that a request is not an admission review.
var ErrNotReview = errors.New("not an admission review")

// FromReview is ReviewRecord for complete bodies: for a webhook that speaks another
// protocol than HTTP, or for a test.
func FromReview(request, response []byte, include ...Content) (*Record, error) {
	asked, answered := NewReviewReader(include...), NewReviewReader(include...)
	_, _ = asked.Write(request) // which never fails
	_, _ = answered.Write(response)
	return ReviewRecord(asked, answered)
}

// ReviewRecord returns the record of an admission review: of what was asked, and what was answered.
// Nothing of it is shared with the readers. k8s.io/api/admission/v1/types.go defines the format.
//
// The decision is Allow or Deny as the answer has it, and Warn where a request is allowed with
// warnings. It is Error, with the reason in Failure, where the API server cannot use the answer.
// The rules are in k8s.io/apiserver/pkg/admission/plugin/webhook/request/admissionreview.go: an
// answer must be an AdmissionReview of version v1 with a response that has the UID of the request.
// It asks for neither version nor UID in an answer to a review of v1beta1. A nil response stands
// for no answer.
//
// The error is ErrNotReview if the request is not an AdmissionReview of the group admission.k8s.io
// with a UID. A request that names neither kind nor version is taken for v1, and its answer need
// not name them either: Go programs that make reviews themselves leave them out.
func ReviewRecord(request, response *ReviewReader) (*Record, error) {
	r, version, err := request.asked()
	if err != nil {
		return nil, fmt.Errorf("%w: the request %w", ErrNotReview, err)
	}
	r.Omitted = slices.Clone(request.omitted)
	if response == nil {
		r.Decision, r.Failure = Error, "there is no response"
	} else if err := response.answer(r, version); err != nil {
		r.Decision, r.Failure = Error, fmt.Sprintf("the response %v", err)
	}
	return r, nil
}

// ReviewDecision returns the decision of ReviewRecord from the answer and the beginning
// of the request. It costs little, because it takes the rest of the request for JSON
// that changes nothing. The decision is empty if the beginning does not tell, and for
// Error.
func ReviewDecision(request, response *ReviewReader) Decision {
	head, whole := request.came, bytes.HasSuffix(bytes.TrimSpace(request.came), []byte("}"))
	if request.streams {
		_, err := request.finish()
		head, whole = request.text, err == nil
	}
	m := membersOf(head[:min(reviewHead, len(head))])
	r := Record{RequestUID: m.in("request").text("uid")}
	version := m.text("apiVersion")
	if !whole || response == nil || m.text("kind") != "AdmissionReview" || !strings.HasPrefix(version, reviewGroup) ||
		r.RequestUID == "" || response.answer(&r, version) != nil {
		return ""
	}
	return r.Decision
}

const (
	reviewGroup = "admission.k8s.io/"
	reviewV1    = reviewGroup + "v1"
	reviewBeta  = reviewGroup + "v1beta1"
)

// asked returns what the request of a review says, and the version of the review.
func (r *ReviewReader) asked() (record *Record, version string, err error) {
	review, err := r.finish()
	if err != nil {
		return nil, "", err
	}
	var d reviewDecoder
	kind, version := d.text(review, "kind"), d.text(review, "apiVersion")
	request := d.object(review, "request")
	group, resource, user := d.object(request, "request.kind"), d.object(request, "request.resource"), d.object(request, "request.userInfo")
	uid := d.text(request, "request.uid")
	record = &Record{
		ID: uid, RequestUID: uid, EventType: AdmissionReview, Process: Admission,
		ResourceGroup:      d.text(group, "request.kind.group"),
		ResourceAPIVersion: d.text(group, "request.kind.version"),
		ResourceKind:       d.text(group, "request.kind.kind"),
		ResourceNamespace:  d.text(request, "request.namespace"),
		ResourceName:       d.text(request, "request.name"),
		Operation:          d.text(request, "request.operation"),
		RequestResource:    d.text(resource, "request.resource.resource"),
		RequestSubresource: d.text(request, "request.subResource"),
		RequestUsername:    d.text(user, "request.userInfo.username"),
		RequestUserUID:     d.text(user, "request.userInfo.uid"),
		RequestUserGroups:  d.texts(user, "request.userInfo.groups"),
		Object:             content(request, ContentObject),
		OldObject:          content(request, ContentOldObject),
	}
	if original := d.object(request, "request.requestResource"); original != nil { // before it was converted for the webhook
		record.RequestResource = d.text(original, "request.requestResource.resource")
		record.RequestSubresource = d.text(request, "request.requestSubResource")
	}
	if dryRun := d.value(request, "request.dryRun", rawjson.Boolean); dryRun != nil {
		value := string(dryRun) == "true"
		record.DryRun = &value
	}
	typed := kind != "" || version != ""
	switch {
	case d.err != nil:
		return nil, "", d.err
	case typed && kind != "AdmissionReview":
		return nil, "", errors.New("is of another kind")
	case typed && !strings.HasPrefix(version, reviewGroup):
		return nil, "", errors.New("is of another API group")
	case uid == "":
		return nil, "", errors.New("has no request with a uid")
	}
	return record, version, nil
}

// content returns a copy of an object, nil for null: for one that was not asked for too.
func content(request members, c Content) []byte {
	if !request.has(string(c)) {
		return nil
	}
	return bytes.Clone(request.get(string(c)))
}

// answer adds to record what the answer says to a review of that version. The error says why
// the API server cannot use the answer; record is as it was then.
func (r *ReviewReader) answer(record *Record, version string) error {
	review, err := r.finish()
	if err != nil {
		return err
	}
	var d reviewDecoder
	kind, ownVersion := d.text(review, "kind"), d.text(review, "apiVersion")
	response := d.object(review, "response")
	status := d.object(response, "response.status")
	uid := d.text(response, "response.uid")
	a := *record
	a.Decision = Deny
	a.Code = d.code(status, "response.status.code")
	a.Message = d.text(status, "response.status.message")
	reason := d.text(status, "response.status.reason")
	a.Warnings = d.texts(response, "response.warnings")
	a.AuditAnnotations = d.textMap(response, "response.auditAnnotations")
	a.PatchType = d.text(response, "response.patchType")
	patch, err := base64.StdEncoding.DecodeString(d.text(response, "response.patch"))
	if string(d.value(response, "response.allowed", rawjson.Boolean)) == "true" {
		a.Decision = Allow
		if len(a.Warnings) > 0 || slices.Contains(r.omitted, "warnings") {
			a.Decision = Warn
		}
	} else if a.Message == "" {
		a.Message = reason // as the API server tells the user
	}
	switch {
	case d.err != nil:
		return d.err
	case err != nil:
		return errors.New("is not an AdmissionReview: response.patch must be base64")
	case response == nil:
		return errors.New("has no verdict: its member response is missing")
	case version == reviewBeta:
	case version != "" && !(ownVersion == reviewV1 && kind == "AdmissionReview"):
		return errors.New("is not an AdmissionReview of " + reviewV1)
	case uid == "":
		return errors.New("has no uid")
	case uid != record.RequestUID:
		return errors.New("has the uid of another request")
	}
	a.PatchBytes = max(len(patch), r.patchBytes)
	a.Omitted = append(a.Omitted, r.omitted...)
	if slices.Contains(r.include, ContentPatch) && len(patch) > 0 {
		if a.Patch = patch; rawjson.KindOf(patch) == rawjson.Invalid {
			a.Patch, a.Omitted = nil, append(a.Omitted, "patch")
		}
	}
	*record = a
	return nil
}

// reviewDecoder reads members by their path in a review and remembers the first that is not
// of the type that k8s.io/api/admission/v1/types.go gives it.
type reviewDecoder struct{ err error }

func (d *reviewDecoder) failf(path, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("is not an AdmissionReview: "+path+" "+format, args...)
	}
}

// value returns a member, nil for null and where there is none.
func (d *reviewDecoder) value(m members, path string, want rawjson.Kind) rawjson.Value {
	v := m.get(path[strings.LastIndexByte(path, '.')+1:])
	switch kind := v.Kind(); kind {
	case want:
		return v
	case rawjson.Invalid, rawjson.Null:
	default:
		d.failf(path, "must be %s, not %s", article(want), article(kind))
	}
	return nil
}

func (d *reviewDecoder) text(m members, path string) string {
	return textOf(d.value(m, path, rawjson.String))
}

// object returns the members of an object, nil where there is none.
func (d *reviewDecoder) object(m members, path string) members {
	return membersOf(d.value(m, path, rawjson.Object))
}

// texts returns the strings of an array, null among them as "".
func (d *reviewDecoder) texts(m members, path string) (list []string) {
	for item := range rawjson.Items(d.value(m, path, rawjson.Array)) {
		d.checkText(path, item)
		list = append(list, textOf(item))
	}
	return list
}

func (d *reviewDecoder) textMap(m members, path string) map[string]string {
	object := d.object(m, path)
	if len(object) == 0 {
		return nil
	}
	texts := make(map[string]string)
	for _, member := range object {
		d.checkText(path, member.value)
		texts[string(member.name)] = textOf(member.value)
	}
	return texts
}

func (d *reviewDecoder) checkText(path string, v rawjson.Value) {
	if kind := v.Kind(); kind != rawjson.String && kind != rawjson.Null {
		d.failf(path, "must have strings, not %s", article(kind))
	}
}

func (d *reviewDecoder) code(m members, path string) int {
	v := d.value(m, path, rawjson.Number)
	if v == nil {
		return 0
	}
	code, err := strconv.ParseInt(string(v), 10, 32)
	if err != nil {
		d.failf(path, "must be a whole number of 32 bits")
	}
	return int(code)
}

// article is what a message calls a kind.
func article(k rawjson.Kind) string {
	if k == rawjson.Array || k == rawjson.Object {
		return "an " + k.String()
	}
	return "a " + k.String()
}
