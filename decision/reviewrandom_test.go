package decision_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestRandomReviews compares reviews of the names that count with what the model makes of
// them: members that stand twice or are null, of wrong types, escaped, in any order.
func TestRandomReviews(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if testing.Short() {
		seed = 1 // the gate decides nothing by chance
	}
	t.Logf("seed %d", seed)
	g := reviewGenerator{rand.New(rand.NewPCG(seed, 0))}
	made := map[string]int{}
	reviews := 5000
	if testing.Short() {
		reviews = 1000
	}
	for range reviews {
		request, response := g.half("request"), g.half("response")
		checkReview(t, []byte(request), []byte(response), []byte{byte(g.IntN(40)), byte(g.IntN(256))})
		if r := modelRecord([]byte(request), []byte(response)); r != nil {
			made[string(r.Decision)]++
		}
		if t.Failed() {
			return
		}
	}
	for _, d := range []string{"allow", "deny", "warn", "error"} {
		if made[d] < 5 {
			t.Errorf("got %d reviews of decision %s, want the generator to make more", made[d], d)
		}
	}
}

type reviewGenerator struct{ *rand.Rand }

// reviewMembers are the members of each object of a review, those of types by their names
// in kinds.
var reviewMembers = map[string][]string{
	"request":  {"uid:uid", "kind:kinds", "resource:resource", "subResource:string", "requestResource:resource", "requestSubResource:string", "namespace:string", "name:string", "operation:string", "userInfo:userInfo", "dryRun:bool", "object:any", "oldObject:any", "options:any", "more:any"},
	"kinds":    {"group:string", "version:string", "kind:string", "more:any"},
	"resource": {"resource:string", "resource:string", "version:any"},
	"userInfo": {"username:string", "uid:string", "groups:strings", "extra:any"},
	"response": {"uid:uid", "allowed:bool", "allowed:bool", "status:status", "warnings:strings", "auditAnnotations:map", "patchType:string", "patch:base64", "Allowed:any"},
	"status":   {"code:int", "message:string", "reason:string", "metadata:any"},
}

func (g reviewGenerator) one(of ...string) string { return of[g.IntN(len(of))] }

// half is a request or a response, mostly one that counts.
func (g reviewGenerator) half(name string) string {
	members := []string{g.name("kind") + `:"` + g.one("AdmissionReview", "AdmissionReview", "AdmissionReview", "AdmissionReview", "Other") + `"`}
	if g.IntN(20) == 0 {
		members = nil
	}
	if g.IntN(20) > 0 {
		members = append(members, g.name("apiVersion")+`:"admission.k8s.io/`+g.one("v1", "v1", "v1", "v1beta1")+`"`)
	}
	for range 1 + g.IntN(5)/4 {
		members = append(members, g.name(name)+":"+g.value(name))
	}
	if g.IntN(10) == 0 {
		members = append(members, g.one(`"more":[{}]`, `"`+name+`":null`, `"kind":null`, `"request":{"uid":"u-1"}`))
	}
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	text := "{" + strings.Join(members, ",") + "}"
	if g.IntN(30) == 0 { // something breaks
		at := g.IntN(len(text))
		return text[:at] + g.one("", "}", `"`, ",", "x", "\x00", "\\", "\xff") + text[min(at+g.IntN(3), len(text)):]
	}
	return text
}

func (g reviewGenerator) name(s string) string {
	if n := g.IntN(10 * len(s)); n < len(s) {
		return fmt.Sprintf(`"%s\u%04x%s"`, s[:n], s[n], s[n+1:])
	}
	return `"` + s + `"` + g.one("", "", "", " ", "\n\t")
}

func (g reviewGenerator) value(kind string) string {
	switch g.IntN(60) {
	case 0:
		return "null"
	case 1:
		return g.any(0)
	}
	switch kind {
	case "uid":
		return g.one(`"u-1"`, `"u-1"`, `"u-1"`, `"u\u002d1"`, `"u-2"`, `""`)
	case "string":
		return g.text()
	case "bool":
		return g.one("true", "false")
	case "int":
		return g.one("200", "403", "-1", "0", "2147483648", "4.5", "1e2")
	case "strings":
		return g.one("[]", "[ ]", `["a"]`, "["+g.text()+","+g.one("null", g.text())+"]", `["b"]`, g.one("[1]", "[[]]", `["c"]`))
	case "map":
		return g.one("{}", `{"a":"b"}`, "{"+g.text()+":"+g.one("null", g.text())+"}", `{"a":1}`)
	case "base64":
		return g.one(`"W10="`, `"W3sib3AiOiJyZW1vdmUifV0="`, `"\u0057\/8="`, `"W1\n0="`, `"abc"`, `"a=bc"`, `"////"`, `""`, `"=="`, `"ab\tc"`)
	case "any":
		return g.any(0)
	}
	var members []string
	for _, member := range reviewMembers[kind] {
		name, of, _ := strings.Cut(member, ":")
		for range g.IntN(9) / 3 % 3 {
			members = append(members, g.name(name)+":"+g.value(of))
		}
		if name == "uid" && g.IntN(10) > 0 {
			members = append(members, `"uid":"u-1"`)
		}
	}
	g.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return "{" + strings.Join(members, ",") + "}"
}

func (g reviewGenerator) text() string {
	text, err := json.Marshal(g.one("", "a", "two words", "\n", "é", "<b>", strings.Repeat("long ", 30), `{"a":1}`, `\`, `"`))
	if err != nil {
		panic(err) // a string always has a form
	}
	return g.one(string(text), string(text), "\"\xff\"")
}

func (g reviewGenerator) any(depth int) string {
	if depth > 3 {
		return "1"
	}
	return g.one("1", "-2.5e3", "true", `"x"`, "[]", "{}", `"}]\"{"`, "["+g.any(depth+1)+","+g.any(depth+1)+"]", `{"uid":`+g.any(depth+1)+`,"object":`+g.any(depth+1)+"}")
}
