package decision

import "bytes"

// find returns which member is called name in an object at l, and the level of what
// lies in it.
func (l level) find(name []byte) (member, level) {
	switch l {
	case inRecord:
		return findInRecord(name)
	case inInput:
		return findInInput(name)
	case inRequest:
		return findInRequest(name)
	case inRequestKind:
		return findInRequestKind(name)
	case inRequestResource:
		return findOne(name, "resource", atInputPlural, nowhere)
	case inRequestUser:
		return findOne(name, "username", atInputUsername, nowhere)
	case inObject:
		return findOne(name, "metadata", none, inObjectMetadata)
	case inObjectMetadata:
		return findTwo(name, "namespace", atInputObjectNamespace, "name", atInputObjectName)
	case inOldObject:
		return findOne(name, "metadata", none, inOldMetadata)
	case inOldMetadata:
		return findTwo(name, "namespace", atInputOldNamespace, "name", atInputOldName)
	case inResult:
		return findInResult(name)
	case inResultStatus:
		return findTwo(name, "message", atResultStatusMessage, "reason", atResultStatusReason)
	case inResponse:
		return findInResponse(name)
	case inResponseStatus:
		return findTwo(name, "message", atResponseStatusMessage, "reason", atResponseStatusReason)
	case inError:
		return findOne(name, "message", atErrorMessage, nowhere)
	case inUser:
		return findOne(name, "username", atUsername, nowhere)
	case inImpersonated:
		return findOne(name, "username", atImpersonated, nowhere)
	case inRef:
		return findInRef(name)
	case inStatus:
		return findTwo(name, "code", atStatusCode, "message", atStatusMessage)
	case inAnnotations:
		return findInAnnotations(name)
	case inItem:
		return findInItem(name)
	}
	return none, nowhere
}

func findOne(name []byte, called string, m member, inner level) (member, level) {
	if string(name) == called {
		return m, inner
	}
	return none, nowhere
}

func findTwo(name []byte, one string, first member, two string, second member) (member, level) {
	switch string(name) {
	case one:
		return first, nowhere
	case two:
		return second, nowhere
	}
	return none, nowhere
}

// findInRecord knows the members of Gatekeeper's records and of docket's; those of
// other engines have members of their own.
func findInRecord(name []byte) (member, level) {
	switch string(name) {
	case "id":
		return atID, nowhere
	case "eventType":
		return atEventType, nowhere
	case "group":
		return atGroup, nowhere
	case "kind":
		return atKind, nowhere
	case "name":
		return atName, nowhere
	case "message":
		return atMessage, nowhere
	case "enforcementAction":
		return atEnforcementAction, nowhere
	case "enforcementActions":
		return atEnforcementActions, nowhere
	case "resourceGroup":
		return atResourceGroup, nowhere
	case "resourceAPIVersion":
		return atResourceAPIVersion, nowhere
	case "resourceKind":
		return atResourceKind, nowhere
	case "resourceNamespace":
		return atResourceNamespace, nowhere
	case "resourceName":
		return atResourceName, nowhere
	case "timestamp":
		return atTimestamp, nowhere
	case "operation":
		return atOperation, nowhere
	case "requestResource":
		return atRequestResource, nowhere
	case "requestSubresource":
		return atRequestSubresource, nowhere
	case "requestUsername":
		return atRequestUsername, nowhere
	case "schemaVersion":
		return atSchemaVersion, nowhere
	case "decision":
		return atDecided, nowhere
	case "process":
		return atProcess, nowhere
	case "requestUID":
		return atRequestUID, nowhere
	case "reason":
		return atReason, nowhere
	case "detail":
		return atDetail, nowhere
	case "violation":
		return atViolation, nowhere
	case "time":
		return atTime, nowhere
	case "ts":
		return atLogTime, nowhere
	case "msg":
		return atLogMessage, nowhere
	case "audit_id":
		return atLogAuditID, nowhere
	case "event_type":
		return atLogEventType, nowhere
	case "constraint_group":
		return atLogGroup, nowhere
	case "constraint_kind":
		return atLogKind, nowhere
	case "constraint_name":
		return atLogName, nowhere
	case "constraint_action":
		return atLogAction, nowhere
	case "constraint_enforcement_actions":
		return atLogActions, nowhere
	case "resource_group":
		return atLogResourceGroup, nowhere
	case "resource_api_version":
		return atLogResourceVersion, nowhere
	case "resource_kind":
		return atLogResourceKind, nowhere
	case "resource_namespace":
		return atLogResourceNamespace, nowhere
	case "resource_name":
		return atLogResourceName, nowhere
	case "request_username":
		return atLogUsername, nowhere
	}
	return findInEvent(name)
}

// findInEvent knows the members of events of OPA and the Kubernetes audit log.
func findInEvent(name []byte) (member, level) {
	switch string(name) {
	case "decision_id":
		return atDecisionID, nowhere
	case "path":
		return atPath, nowhere
	case "input":
		return none, inInput
	case "result":
		return atResult, inResult
	case "error":
		return none, inError
	case "auditID":
		return atAuditID, nowhere
	case "stage":
		return atStage, nowhere
	case "verb":
		return atVerb, nowhere
	case "requestReceivedTimestamp":
		return atRequestReceived, nowhere
	case "stageTimestamp":
		return atStageReached, nowhere
	case "user":
		return none, inUser
	case "impersonatedUser":
		return none, inImpersonated
	case "objectRef":
		return none, inRef
	case "responseStatus":
		return none, inStatus
	case "annotations":
		return none, inAnnotations
	}
	return none, nowhere
}

// findInInput knows those of an OPA input; the request is that of an AdmissionReview.
func findInInput(name []byte) (member, level) {
	switch string(name) {
	case "user":
		return atInputUser, nowhere
	case "request":
		return none, inRequest
	}
	return none, nowhere
}

// findInRequest knows those of the request of an AdmissionReview.
func findInRequest(name []byte) (member, level) {
	switch string(name) {
	case "uid":
		return atInputUID, nowhere
	case "kind":
		return none, inRequestKind
	case "resource":
		return none, inRequestResource
	case "subResource":
		return atInputSubresource, nowhere
	case "namespace":
		return atInputNamespace, nowhere
	case "name":
		return atInputName, nowhere
	case "operation":
		return atInputOperation, nowhere
	case "userInfo":
		return none, inRequestUser
	case "object":
		return none, inObject
	case "oldObject":
		return none, inOldObject
	}
	return none, nowhere
}

// findInRequestKind knows those of a GroupVersionKind.
func findInRequestKind(name []byte) (member, level) {
	switch string(name) {
	case "group":
		return atInputKindGroup, nowhere
	case "version":
		return atInputKindVersion, nowhere
	case "kind":
		return atInputKindKind, nowhere
	}
	return none, nowhere
}

// findInResult knows those of an OPA result that say what was decided, and why.
func findInResult(name []byte) (member, level) {
	switch string(name) {
	case "allow":
		return atResultAllow, nowhere
	case "allowed":
		return atResultAllowed, nowhere
	case "deny":
		return atResultDeny, nowhere
	case "denied":
		return atResultDenied, nowhere
	case "violation":
		return atResultViolation, nowhere
	case "violations":
		return atResultViolations, nowhere
	case "warn":
		return atResultWarn, nowhere
	case "warnings":
		return atResultWarnings, nowhere
	case "reason":
		return atResultReason, nowhere
	case "reasons":
		return atResultReasons, nowhere
	case "message":
		return atResultMessage, nowhere
	case "msg":
		return atResultMsg, nowhere
	case "status":
		return none, inResultStatus
	case "response":
		return none, inResponse
	}
	return none, nowhere
}

// findInResponse knows those of the response of an AdmissionReview.
func findInResponse(name []byte) (member, level) {
	switch string(name) {
	case "allowed":
		return atResponseAllowed, nowhere
	case "warnings":
		return atResponseWarnings, nowhere
	case "status":
		return none, inResponseStatus
	}
	return none, nowhere
}

// findInRef knows those of an ObjectReference.
func findInRef(name []byte) (member, level) {
	switch string(name) {
	case "apiGroup":
		return atRefGroup, nowhere
	case "apiVersion":
		return atRefVersion, nowhere
	case "resource":
		return atRefPlural, nowhere
	case "subresource":
		return atRefSubresource, nowhere
	case "namespace":
		return atRefNamespace, nowhere
	case "name":
		return atRefName, nowhere
	}
	return none, nowhere
}

// failedOpenPrefix begins the names of the annotations that name a webhook which could
// not be asked. Behind it stand the kind of webhook, the round and its number in it.
const failedOpenPrefix = "failed-open."

// findInAnnotations knows the annotations that admission leaves. Of several webhooks
// that failed open the last counts.
func findInAnnotations(name []byte) (member, level) {
	switch string(name) {
	case "authorization.k8s.io/decision":
		return atAuthorized, nowhere
	case "validation.policy.admission.k8s.io/validation_failure":
		return atValidationFailure, nowhere
	}
	if bytes.HasPrefix(name, []byte(failedOpenPrefix)) {
		return atFailedOpen, nowhere
	}
	return none, nowhere
}

// findInItem knows those of an item of a list of reasons: that of a rule, whose shape is
// the policy's own, and that of the API server's annotation.
func findInItem(name []byte) (member, level) {
	switch string(name) {
	case "message":
		return atItemMessage, nowhere
	case "msg":
		return atItemMsg, nowhere
	case "policy":
		return atItemPolicy, nowhere
	case "validationActions":
		return atItemActions, nowhere
	}
	return none, nowhere
}
