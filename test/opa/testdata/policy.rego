package authz

default allow := false

allow if input.user == "alice"

reasons contains msg if {
	not allow
	msg := sprintf("user <%v> is not allowed", [input.user])
}
