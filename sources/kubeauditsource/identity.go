package kubeauditsource

import "github.com/tidwall/gjson"

// appendIdentity appends to dst what a redelivered event is known by, nothing where it
// has no auditID or no stage. A batch that was not answered in time comes again with the
// same events.
//
// An event is one stage of one request, so stage and auditID should do, but the client
// chooses the auditID where it sends the header Audit-ID: with that of a request it has
// made before, a request that is denied would pass for a redelivery and leave no trace.
// An aggregated API server takes the auditID over as well, for events of its own. The
// moment of the stage, in microseconds, is the API server's alone and tells them apart.
// It comes before the auditID, which may hold anything.
func appendIdentity(dst, event []byte) []byte {
	stage := gjson.GetBytes(event, "stage")
	auditID := gjson.GetBytes(event, "auditID")
	if !isText(stage) || !isText(auditID) {
		return dst
	}
	dst = append(dst, stage.Str...)
	dst = append(dst, '/')
	dst = append(dst, gjson.GetBytes(event, "stageTimestamp").Str...)
	dst = append(dst, '/')
	return append(dst, auditID.Str...)
}

func isText(v gjson.Result) bool { return v.Type == gjson.String && v.Str != "" }
