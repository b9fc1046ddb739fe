# An admission webhook: the label "want" of an object says what is to become of it.
package admission

want := object.get(input.request, ["object", "metadata", "labels", "want"], removed)

removed := object.get(input.request, ["oldObject", "metadata", "labels", "want"], "")

review(response) := {
	"apiVersion": "admission.k8s.io/v1",
	"kind": "AdmissionReview",
	"response": object.union({"uid": input.request.uid}, response),
}

default verdict := {"allowed": true}

verdict := {"allowed": false, "status": {"code": 422, "message": "not \"wanted\"\nat all"}} if denied

denied if want == "denial"

denied if {
	want == "stay"
	input.request.operation == "DELETE"
}

verdict := {
	"allowed": true,
	"warnings": ["think again", "and again"],
	"auditAnnotations": {"warnings": "think again\nand again"},
} if {
	want == "warning"
}

validating := review(verdict)

default change := {"allowed": true}

change := {"allowed": true, "patchType": "JSONPatch", "patch": base64.encode(json.marshal(operations))} if want == "change"

operations := [{"op": "add", "path": "/metadata/labels/changed", "value": "yes"}]

mutating := review(change)
