package kubeauditsource

import "github.com/docket-export/docket/decision/rawjson"

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
	stage := rawjson.Member(event, "stage").Text()
	auditID := rawjson.Member(event, "auditID").Text()
	if len(stage) == 0 || len(auditID) == 0 {
		return dst
	}
	dst = append(dst, stage...)
	dst = append(dst, '/')
	dst = rawjson.Member(event, "stageTimestamp").AppendText(dst)
	dst = append(dst, '/')
	return append(dst, auditID...)
}
