package redact

import (
	"bytes"

	"github.com/docket-export/docket/decision/rawjson"
)

// The preset kubernetesSecrets. It removes data and stringData of every Secret, and
// the annotation in which kubectl quotes both. An object is a Secret when
//
//   - it says so: kind Secret of apiVersion v1, or of none,
//   - it is an item of a SecretList, where the API server leaves the kind out,
//   - it is the request or response object of an audit event about secrets: a patch
//     has no kind,
//   - it is the object, or the one before, in docket's record of an admission review about
//     a Secret.
//
// A patch can also be a list of operations, whose values are removed then, and audit
// annotations quote the patches of mutating webhooks, which are removed as well.
// Edits wait until an object ends, because its last member may say what it is.

const (
	lastApplied        = "kubectl.kubernetes.io/last-applied-configuration"
	webhookPatchPrefix = "patch.webhook.admission.k8s.io/"
)

// maxQuoted is how deeply last-applied annotations are looked into within each other. No
// tool quotes deeper, so that a deeper one counts as a Secret.
const maxQuoted = 3

// mayHoldSecret is a quick test that is never wrong when it says no: every record that
// the preset changes has one of these words.
func mayHoldSecret(text []byte) bool {
	return bytes.Contains(text, []byte("Secret")) || bytes.Contains(text, []byte(`"secrets"`)) || escapesLetter(text)
}

// escapesLetter reports whether text has an ASCII letter, or what stands between them
// in the table, written as \u004x to \u007x. Encoders escape only what is elsewhere.
func escapesLetter(text []byte) bool {
	prefix := []byte(`\u00`)
	for {
		i := bytes.Index(text, prefix)
		if i < 0 {
			return false
		}
		text = text[i+len(prefix):]
		if len(text) > 0 && '4' <= text[0] && text[0] <= '7' {
			return true
		}
	}
}

// knownName is a member name that the preset is interested in.
type knownName uint8

const (
	noName knownName = iota
	nameAPIGroup
	nameAPIVersion
	nameAnnotations
	nameData
	nameItems
	nameKind
	nameLastApplied
	nameMetadata
	nameObject
	nameObjectRef
	nameOldObject
	namePatch
	nameRequestObject
	nameResource
	nameResourceGroup
	nameResourceKind
	nameResponseObject
	nameStringData
	nameValue
)

// isObject reports whether an audit event or a record of docket has the object of a
// request there.
func (n knownName) isObject() bool {
	switch n {
	case nameRequestObject, nameResponseObject, nameObject, nameOldObject:
		return true
	}
	return false
}

func nameOf(name []byte) knownName {
	switch string(name) {
	case "apiGroup":
		return nameAPIGroup
	case "apiVersion":
		return nameAPIVersion
	case "annotations":
		return nameAnnotations
	case "data":
		return nameData
	case "items":
		return nameItems
	case "kind":
		return nameKind
	case lastApplied:
		return nameLastApplied
	case "metadata":
		return nameMetadata
	case "object":
		return nameObject
	case "objectRef":
		return nameObjectRef
	case "oldObject":
		return nameOldObject
	case "patch":
		return namePatch
	case "requestObject":
		return nameRequestObject
	case "resource":
		return nameResource
	case "resourceGroup":
		return nameResourceGroup
	case "resourceKind":
		return nameResourceKind
	case "responseObject":
		return nameResponseObject
	case "stringData":
		return nameStringData
	case "value":
		return nameValue
	}
	return noName
}

// facts are what the members of an object say of it. Of a member that stands twice
// both count: nobody knows which one a reader takes.
type facts uint16

const (
	kindSecret     facts = 1 << iota
	kindSecretList       // kind: SecretList
	coreVersion          // apiVersion: v1
	otherVersion
	refSecrets // of an objectRef: resource secrets
	coreGroup  // of an objectRef: apiGroup ""
	otherGroup
	recordSecret // of docket's record: resourceKind Secret
	recordCore   // of docket's record: resourceGroup ""
	recordOther
	aboutSecrets // of an audit event: its objectRef names secrets
)

func (f facts) isSecret() bool {
	return f&kindSecret != 0 && f&(coreVersion|otherVersion) != otherVersion
}
func (f facts) isSecretList() bool {
	return f&kindSecretList != 0 && f&(coreVersion|otherVersion) != otherVersion
}
func (f facts) namesSecrets() bool {
	return f&refSecrets != 0 && f&(coreGroup|otherGroup) != otherGroup
}
func (f facts) isAboutSecrets() bool {
	return f&aboutSecrets != 0 || f&recordSecret != 0 && f&(recordCore|recordOther) != recordOther
}

// pending are edits that are done if an object is of some kind: indexes of the first
// of each list, or noEdit.
type pending struct {
	secret int // it is a Secret
	list   int // it is a SecretList
	event  int // it is an audit event about secrets, or docket's record about one
}

var nothingPending = pending{noEdit, noEdit, noEdit}

// note takes what the member called name says of the innermost object, and an edit of
// the member if it may have to go. The member begins at text[start], its value at
// text[value].
func (w *walker) note(known knownName, name []byte, start, value int) {
	f := w.frame(0)
	switch known {
	case nameKind, nameAPIVersion, nameResource, nameAPIGroup, nameResourceKind, nameResourceGroup:
		f.facts |= w.fact(known, value)
	case nameData, nameStringData:
		w.wait(&f.pending.secret, start, value)
	case nameLastApplied:
		w.noteLastApplied(f, start, value)
	case nameValue:
		// of an operation in a patch: {"op":"replace","path":"/data/x","value":"..."}
		if list := w.frame(1); list != nil && !list.object && (list.name == nameRequestObject || list.name == namePatch) {
			w.wait(&w.frame(2).pending.event, start, value)
		}
	default:
		if f.name == nameAnnotations && bytes.HasPrefix(name, []byte(webhookPatchPrefix)) {
			w.wait(&w.frame(1).pending.event, start, value)
		}
	}
}

// frame returns the innermost frame, or the one that many levels around it, nil when
// there is none.
func (w *walker) frame(around int) *frame {
	if n := len(w.frames) - 1 - around; n >= 0 {
		return &w.frames[n]
	}
	return nil
}

// fact is what a member with the text at text[value] says.
func (w *walker) fact(known knownName, value int) facts {
	if w.text[value] != '"' {
		return 0
	}
	text := string(w.stringAt(value))
	switch {
	case known == nameKind && text == "Secret":
		return kindSecret
	case known == nameKind && text == "SecretList":
		return kindSecretList
	case known == nameAPIVersion && text == "v1":
		return coreVersion
	case known == nameAPIVersion:
		return otherVersion
	case known == nameResource && text == "secrets":
		return refSecrets
	case known == nameAPIGroup && text == "":
		return coreGroup
	case known == nameAPIGroup:
		return otherGroup
	case known == nameResourceKind && text == "Secret":
		return recordSecret
	case known == nameResourceGroup && text == "":
		return recordCore
	case known == nameResourceGroup:
		return recordOther
	}
	return 0
}

// stringAt returns what the string at text[value] says.
func (w *walker) stringAt(value int) []byte {
	return rawjson.Value(w.text[value:rawjson.StringEnd(w.text, value)]).Text()
}

// wait adds an edit to a list of those that are pending.
func (w *walker) wait(list *int, start, value int) {
	w.edits = append(w.edits, edit{start: start, value: value, by: byPreset, next: *list})
	*list = len(w.edits) - 1
}

// noteLastApplied removes the annotation of a Secret, and any that quotes one: parts of
// objects without a kind, as in tables, have annotations too.
func (w *walker) noteLastApplied(annotations *frame, start, value int) {
	object, metadata := w.frame(2), w.frame(1)
	if annotations.name == nameAnnotations && object != nil && metadata.name == nameMetadata {
		w.wait(&object.pending.secret, start, value)
	}
	if w.text[value] != '"' {
		return
	}
	quoted := w.stringAt(value)
	if mayHoldSecret(quoted) && w.holdsSecret(quoted) {
		w.edits = append(w.edits, edit{start: start, value: value, holds: true, by: byPreset, next: noEdit})
	}
}

// holdsSecret reports whether something in text, which the record quotes, would have
// to go.
func (w *walker) holdsSecret(text []byte) bool {
	if w.quoted == maxQuoted {
		return true
	}
	inner := walker{r: w.r, text: text, secrets: true, quoted: w.quoted + 1}
	inner.walk(0)
	for _, e := range inner.edits {
		if e.holds {
			return true
		}
	}
	return false
}

// leave ends the innermost array or object, of which everything is known now.
func (w *walker) leave() {
	f := w.frame(0)
	if w.secrets && f.object {
		w.decide(f)
	}
	w.frames = w.frames[:len(w.frames)-1]
}

// decide does or drops what has waited for the object f to end, or leaves it to the
// object around it that would make f a Secret.
func (w *walker) decide(f *frame) {
	if f.facts.isSecret() {
		w.confirm(f.pending.secret)
	}
	if f.facts.isSecretList() {
		w.confirm(f.pending.list)
	}
	if f.facts.isAboutSecrets() {
		w.confirm(f.pending.event)
	}
	around, beyond := w.frame(1), w.frame(2)
	switch {
	case around == nil:
	case !around.object && around.name == nameItems && beyond != nil:
		w.pass(f.pending.secret, &beyond.pending.list)
	case around.object && f.name.isObject():
		w.pass(f.pending.secret, &around.pending.event)
		w.pass(f.pending.list, &around.pending.event)
	case around.object && f.name == nameObjectRef && f.facts.namesSecrets():
		around.facts |= aboutSecrets
	}
}

func (w *walker) confirm(list int) {
	for ; list != noEdit; list = w.edits[list].next {
		w.edits[list].holds = true
	}
}

// pass moves the edits of list to another one.
func (w *walker) pass(list int, to *int) {
	if list == noEdit {
		return
	}
	last := list
	for w.edits[last].next != noEdit {
		last = w.edits[last].next
	}
	w.edits[last].next = *to
	*to = list
}
