package decision

// member is one of the members that Normalize looks at, somewhere in a record.
type member uint8

// The members. Those of one object stand together, with those of the objects in it.
const (
	none member = iota

	// Gatekeeper's export, and docket's own records.
	atID
	atEventType
	atGroup
	atKind
	atName
	atMessage
	atEnforcementAction
	atEnforcementActions
	atResourceGroup
	atResourceAPIVersion
	atResourceKind
	atResourceNamespace
	atResourceName
	atTimestamp
	atOperation
	atRequestResource
	atRequestSubresource
	atRequestUsername
	atSchemaVersion
	atDecided
	atProcess
	atRequestUID
	atReason
	atDetail
	atViolation
	atTime

	// Gatekeeper's log.
	atLogTime
	atLogMessage
	atLogAuditID
	atLogEventType
	atLogGroup
	atLogKind
	atLogName
	atLogAction
	atLogActions
	atLogResourceGroup
	atLogResourceVersion
	atLogResourceKind
	atLogResourceNamespace
	atLogResourceName
	atLogUsername

	// OPA's decision log.
	atDecisionID
	atPath
	atInputUser
	atInputUID
	atInputOperation
	atInputNamespace
	atInputName
	atInputSubresource
	atInputKindGroup
	atInputKindVersion
	atInputKindKind
	atInputPlural
	atInputUsername
	atInputObjectNamespace
	atInputObjectName
	atInputOldNamespace
	atInputOldName
	atResult
	atResultAllow
	atResultAllowed
	atResultDeny
	atResultDenied
	atResultViolation
	atResultViolations
	atResultWarn
	atResultWarnings
	atResultReason
	atResultReasons
	atResultMessage
	atResultMsg
	atResultStatusMessage
	atResultStatusReason
	atResponseAllowed
	atResponseWarnings
	atResponseStatusMessage
	atResponseStatusReason
	atErrorMessage

	// The Kubernetes audit log.
	atAuditID
	atStage
	atVerb
	atRequestReceived
	atStageReached
	atUsername
	atImpersonated
	atRefGroup
	atRefVersion
	atRefPlural
	atRefSubresource
	atRefNamespace
	atRefName
	atStatusCode
	atStatusMessage
	atAuthorized
	atValidationFailure
	atFailedOpen

	// An item of a list of reasons, read by itself.
	atItemMessage
	atItemMsg
	atItemPolicy
	atItemActions

	memberCount
)

// level is the place of an object in a record: what its members are called there.
type level uint8

// The levels.
const (
	nowhere level = iota // no object that is looked into
	inRecord
	inInput
	inRequest
	inRequestKind
	inRequestResource
	inRequestUser
	inObject
	inObjectMetadata
	inOldObject
	inOldMetadata
	inResult
	inResultStatus
	inResponse
	inResponseStatus
	inError
	inUser
	inImpersonated
	inRef
	inStatus
	inAnnotations
	inItem
)

// members returns the first and the last member below l.
func (l level) members() (first, last member) {
	switch l {
	case inInput:
		return atInputUser, atInputOldName
	case inRequest:
		return atInputUID, atInputOldName
	case inRequestKind:
		return atInputKindGroup, atInputKindKind
	case inRequestResource:
		return atInputPlural, atInputPlural
	case inRequestUser:
		return atInputUsername, atInputUsername
	case inObject, inObjectMetadata:
		return atInputObjectNamespace, atInputObjectName
	case inOldObject, inOldMetadata:
		return atInputOldNamespace, atInputOldName
	case inResult:
		return atResultAllow, atResponseStatusReason
	case inResultStatus:
		return atResultStatusMessage, atResultStatusReason
	case inResponse:
		return atResponseAllowed, atResponseStatusReason
	case inResponseStatus:
		return atResponseStatusMessage, atResponseStatusReason
	case inError:
		return atErrorMessage, atErrorMessage
	case inUser:
		return atUsername, atUsername
	case inImpersonated:
		return atImpersonated, atImpersonated
	case inRef:
		return atRefGroup, atRefName
	case inStatus:
		return atStatusCode, atStatusMessage
	case inAnnotations:
		return atAuthorized, atFailedOpen
	}
	return none, none
}
