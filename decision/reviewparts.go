package decision

import (
	"fmt"
	"strconv"

	"github.com/docket-export/docket/decision/rawjson"
)

// reviewPart is a member of an AdmissionReview that a record needs, or that holds others.
type reviewPart struct {
	name    string       // in the object that it is a member of
	path    string       // for a person
	slot    reviewSlot   // where its value is noted
	kind    rawjson.Kind // of the API's type; Invalid: any
	inner   *reviewLevel // what is looked for in it, nil: nothing
	resets  slotSet      // what null takes back of what stood before
	content Content      // it is kept only where that was asked for
	skip    bool         // it is never kept
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
	return fmt.Errorf("is no AdmissionReview: "+p.path+" "+format, args...)
}

// article is what a message calls a kind.
func article(k rawjson.Kind) string {
	switch k {
	case rawjson.Array, rawjson.Object:
		return "an " + k.String()
	}
	return "a " + k.String()
}

// reviewLevel are the members that are looked for in one object.
type reviewLevel []reviewPart

// find returns the member called name, nil where it is none of l.
func (l reviewLevel) find(name []byte) *reviewPart {
	for i := range l {
		if string(name) == l[i].name {
			return &l[i]
		}
	}
	return nil
}

// reviewSlot is the place of one value of a review.
type reviewSlot uint8

const (
	nowhereInReview reviewSlot = iota
	reviewAPIVersion
	reviewKind

	askedRequest
	askedUID
	askedGroup
	askedVersion
	askedKind
	askedResource
	askedSubresource
	askedOriginal // that there is a requestResource
	askedOriginalResource
	askedOriginalSubresource
	askedNamespace
	askedName
	askedOperation
	askedUsername
	askedUserUID
	askedUserGroups
	askedDryRun
	askedObject
	askedOldObject

	answeredResponse
	answeredUID
	answeredAllowed
	answeredStatus
	answeredCode
	answeredMessage
	answeredReason
	answeredWarnings
	answeredAnnotations
	answeredPatchType
	answeredPatch

	reviewSlots
)

// reviewFields are the fields of a Record for which values may be too large, by slot.
var reviewFields = [reviewSlots]string{
	askedGroup:               "resourceGroup",
	askedVersion:             "resourceAPIVersion",
	askedKind:                "resourceKind",
	askedResource:            "requestResource",
	askedSubresource:         "requestSubresource",
	askedOriginalResource:    "requestResource",
	askedOriginalSubresource: "requestSubresource",
	askedNamespace:           "resourceNamespace",
	askedName:                "resourceName",
	askedOperation:           "operation",
	askedUsername:            "requestUsername",
	askedUserUID:             "requestUserUID",
	askedUserGroups:          "requestUserGroups",
	askedObject:              "object",
	askedOldObject:           "oldObject",
	answeredMessage:          "message",
	answeredReason:           "message",
	answeredWarnings:         "warnings",
	answeredAnnotations:      "auditAnnotations",
	answeredPatchType:        "patchType",
	answeredPatch:            "patch",
}

// slotSet is a set of slots, a bit for each.
type slotSet uint64

func slotsFrom(first, last reviewSlot) slotSet { return 1<<(last+1) - 1<<first }

func (s slotSet) has(slot reviewSlot) bool { return s>>slot&1 != 0 }

// The members, with the types that k8s.io/api/admission/v1/types.go gives them. Null
// takes back what stood before it where the type is a pointer, a list or a map, and says nothing
// for another, as it does when the API server decodes an answer.
var (
	reviewRoot = reviewLevel{
		{name: "request", path: "request", slot: askedRequest, kind: rawjson.Object, inner: &requestLevel, resets: slotsFrom(askedRequest, askedOldObject)},
		{name: "response", path: "response", slot: answeredResponse, kind: rawjson.Object, inner: &responseLevel, resets: slotsFrom(answeredResponse, answeredPatch)},
		{name: "kind", path: "kind", slot: reviewKind, kind: rawjson.String},
		{name: "apiVersion", path: "apiVersion", slot: reviewAPIVersion, kind: rawjson.String},
	}
	requestLevel = reviewLevel{
		{name: "object", path: "request.object", slot: askedObject, content: ContentObject},
		{name: "oldObject", path: "request.oldObject", slot: askedOldObject, content: ContentOldObject},
		{name: "options", path: "request.options", skip: true},
		{name: "uid", path: "request.uid", slot: askedUID, kind: rawjson.String},
		{name: "kind", path: "request.kind", kind: rawjson.Object, inner: &kindLevel},
		{name: "resource", path: "request.resource", kind: rawjson.Object, inner: &resourceLevel},
		{name: "subResource", path: "request.subResource", slot: askedSubresource, kind: rawjson.String},
		{name: "requestResource", path: "request.requestResource", slot: askedOriginal, kind: rawjson.Object, inner: &originalLevel, resets: slotsFrom(askedOriginal, askedOriginalResource)},
		{name: "requestSubResource", path: "request.requestSubResource", slot: askedOriginalSubresource, kind: rawjson.String},
		{name: "namespace", path: "request.namespace", slot: askedNamespace, kind: rawjson.String},
		{name: "name", path: "request.name", slot: askedName, kind: rawjson.String},
		{name: "operation", path: "request.operation", slot: askedOperation, kind: rawjson.String},
		{name: "userInfo", path: "request.userInfo", kind: rawjson.Object, inner: &userLevel},
		{name: "dryRun", path: "request.dryRun", slot: askedDryRun, kind: rawjson.Boolean, resets: slotsFrom(askedDryRun, askedDryRun)},
	}
	kindLevel = reviewLevel{
		{name: "group", path: "request.kind.group", slot: askedGroup, kind: rawjson.String},
		{name: "version", path: "request.kind.version", slot: askedVersion, kind: rawjson.String},
		{name: "kind", path: "request.kind.kind", slot: askedKind, kind: rawjson.String},
	}
	resourceLevel = reviewLevel{
		{name: "resource", path: "request.resource.resource", slot: askedResource, kind: rawjson.String},
	}
	originalLevel = reviewLevel{
		{name: "resource", path: "request.requestResource.resource", slot: askedOriginalResource, kind: rawjson.String},
	}
	userLevel = reviewLevel{
		{name: "username", path: "request.userInfo.username", slot: askedUsername, kind: rawjson.String},
		{name: "uid", path: "request.userInfo.uid", slot: askedUserUID, kind: rawjson.String},
		{name: "groups", path: "request.userInfo.groups", slot: askedUserGroups, kind: rawjson.Array, resets: slotsFrom(askedUserGroups, askedUserGroups)},
		{name: "extra", path: "request.userInfo.extra", skip: true},
	}
	responseLevel = reviewLevel{
		{name: "uid", path: "response.uid", slot: answeredUID, kind: rawjson.String},
		{name: "allowed", path: "response.allowed", slot: answeredAllowed, kind: rawjson.Boolean},
		{name: "status", path: "response.status", slot: answeredStatus, kind: rawjson.Object, inner: &statusLevel, resets: slotsFrom(answeredStatus, answeredReason)},
		{name: "warnings", path: "response.warnings", slot: answeredWarnings, kind: rawjson.Array, resets: slotsFrom(answeredWarnings, answeredWarnings)},
		{name: "auditAnnotations", path: "response.auditAnnotations", slot: answeredAnnotations, kind: rawjson.Object, resets: slotsFrom(answeredAnnotations, answeredAnnotations)},
		{name: "patchType", path: "response.patchType", slot: answeredPatchType, kind: rawjson.String, resets: slotsFrom(answeredPatchType, answeredPatchType)},
		{name: "patch", path: "response.patch", slot: answeredPatch, kind: rawjson.String, content: ContentPatch, resets: slotsFrom(answeredPatch, answeredPatch)},
	}
	statusLevel = reviewLevel{
		{name: "code", path: "response.status.code", slot: answeredCode, kind: rawjson.Number},
		{name: "message", path: "response.status.message", slot: answeredMessage, kind: rawjson.String},
		{name: "reason", path: "response.status.reason", slot: answeredReason, kind: rawjson.String},
	}
)
