package decision_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/docket-export/docket/decision"
)

// review is an AdmissionReview as encoding/json decodes it, by the Go types of the API. Its
// names are compared with upper and lower case apart, as the API server does.
type review struct {
	kind, apiVersion string
	request          *reviewRequest
	response         *reviewResponse
}

type reviewRequest struct {
	uid, subResource, requestSubResource, namespace, name, operation string
	group, version, kind, resource                                   string
	requestResource                                                  *string
	username, userUID                                                string
	groups                                                           []string
	dryRun                                                           *bool
	object, oldObject                                                json.RawMessage
}

type reviewResponse struct {
	uid         string
	allowed     bool
	code        int32
	message     string
	reason      string
	warnings    []string
	annotations map[string]string
	patchType   *string
	patch       []byte
}

// eachMember calls set with every member of object in its order.
func eachMember(object []byte, set func(name string, value json.RawMessage) error) error {
	if bytes.Equal(bytes.TrimSpace(object), []byte("null")) {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(object))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.New("no object")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		if err := set(name.(string), value); err != nil {
			return err
		}
	}
	return nil
}

func isNull(v json.RawMessage) bool { return string(v) == "null" }

// fields sets what a name stands for, as encoding/json sets a field.
func fields(into map[string]any) func(string, json.RawMessage) error {
	return func(name string, value json.RawMessage) error {
		switch field := into[name].(type) {
		case nil:
			return nil
		case func(json.RawMessage) error:
			return field(value)
		case *map[string]string:
			*field = nil // of two maps the last counts
			return json.Unmarshal(value, field)
		case *[]string:
			*field = nil // and of two lists, whose nulls would keep what stood before
			return json.Unmarshal(value, field)
		case *json.RawMessage: // a RawExtension leaves null out
			if !isNull(value) {
				*field = value
			}
			return nil
		default:
			return json.Unmarshal(value, field)
		}
	}
}

func decodeReview(text []byte) (review, error) {
	var r review
	if !json.Valid(text) {
		return r, errors.New("no JSON")
	}
	return r, eachMember(text, fields(map[string]any{
		"kind": &r.kind, "apiVersion": &r.apiVersion,
		"request": func(v json.RawMessage) error {
			if isNull(v) {
				r.request = nil
				return nil
			}
			if r.request == nil {
				r.request = &reviewRequest{}
			}
			return r.request.decode(v)
		},
		"response": func(v json.RawMessage) error {
			if isNull(v) {
				r.response = nil
				return nil
			}
			if r.response == nil {
				r.response = &reviewResponse{}
			}
			return r.response.decode(v)
		},
	}))
}

func (q *reviewRequest) decode(v json.RawMessage) error {
	object := func(into map[string]any) func(json.RawMessage) error {
		return func(v json.RawMessage) error { return eachMember(v, fields(into)) }
	}
	return eachMember(v, fields(map[string]any{
		"uid": &q.uid, "subResource": &q.subResource, "requestSubResource": &q.requestSubResource,
		"namespace": &q.namespace, "name": &q.name, "operation": &q.operation, "dryRun": &q.dryRun,
		"object": &q.object, "oldObject": &q.oldObject,
		"kind":     object(map[string]any{"group": &q.group, "version": &q.version, "kind": &q.kind}),
		"resource": object(map[string]any{"resource": &q.resource}),
		"requestResource": func(v json.RawMessage) error {
			if isNull(v) {
				q.requestResource = nil
				return nil
			}
			if q.requestResource == nil {
				q.requestResource = new(string)
			}
			return object(map[string]any{"resource": q.requestResource})(v)
		},
		"userInfo": object(map[string]any{"username": &q.username, "uid": &q.userUID, "groups": &q.groups}),
	}))
}

func (p *reviewResponse) decode(v json.RawMessage) error {
	return eachMember(v, fields(map[string]any{
		"uid": &p.uid, "allowed": &p.allowed, "warnings": &p.warnings, "auditAnnotations": &p.annotations,
		"patchType": &p.patchType,
		"patch": func(v json.RawMessage) error {
			if v[0] == '[' { // which Go takes for bytes, one number each; no engine writes it
				return errors.New("a list")
			}
			return json.Unmarshal(v, &p.patch)
		},
		"status": func(v json.RawMessage) error {
			if isNull(v) {
				p.code, p.message, p.reason = 0, "", ""
				return nil
			}
			return eachMember(v, fields(map[string]any{"code": &p.code, "message": &p.message, "reason": &p.reason}))
		},
	}))
}

// modelRecord is what ReviewRecord should make of a review, without its Failure; nil
// for what is none.
func modelRecord(request, response []byte) *decision.Record {
	asked, err := decodeReview(request)
	untyped := asked.kind == "" && asked.apiVersion == ""
	switch {
	case err != nil || asked.request == nil || asked.request.uid == "",
		!untyped && (asked.kind != "AdmissionReview" || !strings.HasPrefix(asked.apiVersion, "admission.k8s.io/")):
		return nil
	}
	q := asked.request
	r := &decision.Record{
		ID: q.uid, RequestUID: q.uid, EventType: "admission_review", Process: "admission", Decision: "error",
		ResourceGroup: q.group, ResourceAPIVersion: q.version, ResourceKind: q.kind, ResourceNamespace: q.namespace, ResourceName: q.name,
		Operation: q.operation, RequestResource: q.resource, RequestSubresource: q.subResource,
		RequestUsername: q.username, RequestUserUID: q.userUID, RequestUserGroups: q.groups, DryRun: q.dryRun,
		Object: q.object, OldObject: q.oldObject,
	}
	if q.requestResource != nil {
		r.RequestResource, r.RequestSubresource = *q.requestResource, q.requestSubResource
	}
	answered, err := decodeReview(response)
	p := answered.response
	if err != nil || p == nil {
		return r
	}
	if asked.apiVersion != "admission.k8s.io/v1beta1" {
		if p.uid != q.uid || !untyped && (answered.kind != "AdmissionReview" || answered.apiVersion != "admission.k8s.io/v1") {
			return r
		}
	}
	r.Decision = decision.Allow
	switch {
	case !p.allowed:
		r.Decision = decision.Deny
	case len(p.warnings) > 0:
		r.Decision = decision.Warn
	}
	r.Code, r.Message, r.Warnings, r.AuditAnnotations, r.PatchBytes = int(p.code), p.message, p.warnings, p.annotations, len(p.patch)
	if r.Message == "" && !p.allowed {
		r.Message = p.reason
	}
	if p.patchType != nil {
		r.PatchType = *p.patchType
	}
	switch {
	case len(p.patch) == 0:
	case json.Valid(p.patch) && bytes.Equal(p.patch, bytes.ToValidUTF8(p.patch, nil)):
		r.Patch = p.patch
	default:
		r.Omitted = []string{"patch"}
	}
	return r
}

// inPieces is FromReview with all contents, of bodies that come in pieces of the sizes in cuts, again and again.
func inPieces(request, response, cuts []byte) (*decision.Record, error) {
	write := func(text []byte) *decision.ReviewReader {
		r := decision.NewReviewReader(decision.ContentObject, decision.ContentOldObject, decision.ContentPatch)
		for i := 0; len(text) > 0; i++ {
			n := 1
			if len(cuts) > 0 {
				n += int(cuts[i%len(cuts)])
			}
			piece := bytes.Clone(text[:min(n, len(text))])
			_, _ = r.Write(piece)
			for i := range piece {
				piece[i] = '!' // it must not be kept
			}
			text = text[min(n, len(text)):]
		}
		return r
	}
	return decision.ReviewRecord(write(request), write(response))
}

// checkReview compares a record with that of the model, however the review is cut in pieces.
func checkReview(t *testing.T, request, response, cuts []byte) {
	t.Helper()
	got, err := inPieces(request, response, cuts)
	whole, wholeErr := decision.FromReview(request, response, decision.ContentObject, decision.ContentOldObject, decision.ContentPatch)
	if line(t, got) != line(t, whole) || (err == nil) != (wholeErr == nil) || err != nil && err.Error() != wholeErr.Error() {
		t.Errorf("%q\n%q\nin pieces   %s, %v\nas a whole  %s, %v", request, response, line(t, got), err, line(t, whole), wholeErr)
	}
	if err != nil {
		if got != nil || !errors.Is(err, decision.ErrNotReview) || strings.ContainsAny(err.Error(), "\n\r\"") {
			t.Errorf("%q: got %+v, error %q, want a plain ErrNotReview", request, got, err)
		}
	} else if (got.Decision == decision.Error) != (got.Failure != "") || strings.ContainsAny(got.Failure, "\n\r\"") {
		t.Errorf("%q: got decision %q, failure %q", response, got.Decision, got.Failure)
	}
	if unseen(request) || unseen(response) || len(request)+len(response) > 64<<10 {
		return // what is broken within objects is not looked at
	}
	want := modelRecord(request, response)
	if got != nil {
		got.Failure = ""
	}
	if line(t, got) != line(t, want) {
		t.Errorf("%q\n%q\ngot  %s\nwant %s", request, response, line(t, got), line(t, want))
	}
}

// unseen reports whether text is no JSON and may have what a reader skips.
func unseen(text []byte) bool {
	skipped := []string{"options", "extra", `\`}
	return !json.Valid(text) && slices.ContainsFunc(skipped, func(s string) bool { return bytes.Contains(text, []byte(s)) })
}

// line is the line of r, "" of none.
func line(t *testing.T, r *decision.Record) string {
	t.Helper()
	if r == nil {
		return ""
	}
	mended := *r
	for _, raw := range []*json.RawMessage{&mended.Object, &mended.OldObject} { // what was not UTF-8
		if len(*raw) > 0 {
			*raw = json.RawMessage(string([]rune(string(*raw))))
		}
	}
	text, err := mended.AppendLine(nil)
	if err != nil || !json.Valid(text) {
		t.Errorf("%+v: got line %s, %v", r, text, err)
	}
	return string(text)
}
