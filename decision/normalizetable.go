package decision

import (
	"bytes"
	"strings"
)

// member is one of the members that Normalize looks at, somewhere in a record.
type member uint8

// The members, each with its path as a JSON pointer. "*" stands for any end of a name: of
// several such members the last counts. The members of one object stand together, with
// those of the objects in it.
var (
	// Gatekeeper's export, and docket's own records.
	atID                 = recordMember("/id")
	atEventType          = recordMember("/eventType")
	atGroup              = recordMember("/group")
	atKind               = recordMember("/kind")
	atName               = recordMember("/name")
	atMessage            = recordMember("/message")
	atEnforcementAction  = recordMember("/enforcementAction")
	atEnforcementActions = recordMember("/enforcementActions")
	atResourceGroup      = recordMember("/resourceGroup")
	atResourceAPIVersion = recordMember("/resourceAPIVersion")
	atResourceKind       = recordMember("/resourceKind")
	atResourceNamespace  = recordMember("/resourceNamespace")
	atResourceName       = recordMember("/resourceName")
	atTimestamp          = recordMember("/timestamp")
	atOperation          = recordMember("/operation")
	atRequestResource    = recordMember("/requestResource")
	atRequestSubresource = recordMember("/requestSubresource")
	atRequestUsername    = recordMember("/requestUsername")
	atSchemaVersion      = recordMember("/schemaVersion")
	atDecided            = recordMember("/decision")
	atProcess            = recordMember("/process")
	atRequestUID         = recordMember("/requestUID")
	atReason             = recordMember("/reason")
	atDetail             = recordMember("/detail")
	atViolation          = recordMember("/violation")
	atTime               = recordMember("/time")
	atFailure            = recordMember("/failure")

	// Gatekeeper's log.
	atLogTime              = recordMember("/ts")
	atLogMessage           = recordMember("/msg")
	atLogAuditID           = recordMember("/audit_id")
	atLogEventType         = recordMember("/event_type")
	atLogGroup             = recordMember("/constraint_group")
	atLogKind              = recordMember("/constraint_kind")
	atLogName              = recordMember("/constraint_name")
	atLogAction            = recordMember("/constraint_action")
	atLogActions           = recordMember("/constraint_enforcement_actions")
	atLogResourceGroup     = recordMember("/resource_group")
	atLogResourceVersion   = recordMember("/resource_api_version")
	atLogResourceKind      = recordMember("/resource_kind")
	atLogResourceNamespace = recordMember("/resource_namespace")
	atLogResourceName      = recordMember("/resource_name")
	atLogUsername          = recordMember("/request_username")

	// OPA's decision log.
	atDecisionID            = recordMember("/decision_id")
	atPath                  = recordMember("/path")
	atInputUser             = recordMember("/input/user")
	atInputUID              = recordMember("/input/request/uid")
	atInputOperation        = recordMember("/input/request/operation")
	atInputNamespace        = recordMember("/input/request/namespace")
	atInputName             = recordMember("/input/request/name")
	atInputSubresource      = recordMember("/input/request/subResource")
	atInputKindGroup        = recordMember("/input/request/kind/group")
	atInputKindVersion      = recordMember("/input/request/kind/version")
	atInputKindKind         = recordMember("/input/request/kind/kind")
	atInputPlural           = recordMember("/input/request/resource/resource")
	atInputUsername         = recordMember("/input/request/userInfo/username")
	atInputObjectNamespace  = recordMember("/input/request/object/metadata/namespace")
	atInputObjectName       = recordMember("/input/request/object/metadata/name")
	atInputOldNamespace     = recordMember("/input/request/oldObject/metadata/namespace")
	atInputOldName          = recordMember("/input/request/oldObject/metadata/name")
	atResult                = recordMember("/result")
	atResultAllow           = recordMember("/result/allow")
	atResultAllowed         = recordMember("/result/allowed")
	atResultDeny            = recordMember("/result/deny")
	atResultDenied          = recordMember("/result/denied")
	atResultViolation       = recordMember("/result/violation")
	atResultViolations      = recordMember("/result/violations")
	atResultWarn            = recordMember("/result/warn")
	atResultWarnings        = recordMember("/result/warnings")
	atResultReason          = recordMember("/result/reason")
	atResultReasons         = recordMember("/result/reasons")
	atResultMessage         = recordMember("/result/message")
	atResultMsg             = recordMember("/result/msg")
	atResultStatusMessage   = recordMember("/result/status/message")
	atResultStatusReason    = recordMember("/result/status/reason")
	atResponseAllowed       = recordMember("/result/response/allowed")
	atResponseWarnings      = recordMember("/result/response/warnings")
	atResponseStatusMessage = recordMember("/result/response/status/message")
	atResponseStatusReason  = recordMember("/result/response/status/reason")
	atErrorMessage          = recordMember("/error/message")

	// The Kubernetes audit log.
	atAuditID           = recordMember("/auditID")
	atStage             = recordMember("/stage")
	atVerb              = recordMember("/verb")
	atRequestReceived   = recordMember("/requestReceivedTimestamp")
	atStageReached      = recordMember("/stageTimestamp")
	atUsername          = recordMember("/user/username")
	atImpersonated      = recordMember("/impersonatedUser/username")
	atRefGroup          = recordMember("/objectRef/apiGroup")
	atRefVersion        = recordMember("/objectRef/apiVersion")
	atRefPlural         = recordMember("/objectRef/resource")
	atRefSubresource    = recordMember("/objectRef/subresource")
	atRefNamespace      = recordMember("/objectRef/namespace")
	atRefName           = recordMember("/objectRef/name")
	atStatusCode        = recordMember("/responseStatus/code")
	atStatusMessage     = recordMember("/responseStatus/message")
	atAuthorized        = recordMember("/annotations/authorization.k8s.io~1decision")
	atValidationFailure = recordMember("/annotations/validation.policy.admission.k8s.io~1validation_failure")
	atFailedOpen        = recordMember("/annotations/failed-open.*")

	// An item of a list of reasons, read by itself.
	atItemMessage = itemMember("/message")
	atItemMsg     = itemMember("/msg")
	atItemPolicy  = itemMember("/policy")
	atItemActions = itemMember("/validationActions")
)

// level is an object with members that Normalize looks at: a record, an item of a list of
// reasons, or an object below one of them.
type level uint8

const (
	nowhere level = iota // no object that Normalize looks into
	inRecord
	inItem
)

// none is no member that Normalize looks at.
const none member = 0

// There are fewer members and levels than these; tests say so.
const (
	maxMembers = 112
	maxLevels  = 32
)

// known finds the members by their names. It does not change once this package is
// initialised.
var known = table{levels: inItem + 1}

type table struct {
	entries [512]entry // by hash; the next ones where that is taken
	prefix  entry      // whose name ends in "*"
	members member     // how many there are
	levels  level
	below   [maxLevels]struct{ first, last member } // those below a level
}

type entry struct {
	level  level
	name   string
	member member // none for an object that is only looked into
	inner  level  // that of its members, nowhere if none counts
}

func recordMember(pointer string) member { return known.add(inRecord, pointer) }
func itemMember(pointer string) member   { return known.add(inItem, pointer) }

// add adds the member at pointer, and the levels on the way to it.
func (t *table) add(l level, pointer string) member {
	t.members++
	path := strings.Split(pointer, "/")[1:]
	for i, name := range path {
		name = strings.ReplaceAll(name, "~1", "/")
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			t.prefix = entry{level: l, name: prefix, member: t.members}
			break
		}
		e := t.slot(l, []byte(name))
		e.level, e.name = l, name
		if i == len(path)-1 {
			e.member = t.members
			break
		}
		if e.inner == nowhere {
			e.inner = t.levels
			t.below[e.inner].first = t.members
			t.levels++
		}
		l = e.inner
		t.below[l].last = t.members
	}
	return t.members
}

// slot returns the entry of the member called name at l, an empty one if there is none.
func (t *table) slot(l level, name []byte) *entry {
	h := uint(l) * 37
	if n := len(name); n > 0 {
		h += uint(n)*131 + uint(name[0])*7 + uint(name[n/2])*29 + uint(name[n-1])*113
	}
	for {
		e := &t.entries[h%uint(len(t.entries))]
		if e.level == nowhere || e.level == l && e.name == string(name) {
			return e
		}
		h++
	}
}

// find returns which member is called name in an object at l, and the level of what
// lies in it.
func (l level) find(name []byte) (member, level) {
	e := known.slot(l, name)
	if e.level == nowhere && l == known.prefix.level && bytes.HasPrefix(name, []byte(known.prefix.name)) {
		e = &known.prefix
	}
	return e.member, e.inner
}
