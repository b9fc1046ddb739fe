package redact_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/docket-export/docket/exporter/redact"
)

// node is a JSON value as a tree that keeps the order of members and those that
// stand twice: the same edits as the package makes, made on it one after another, are
// what its output must parse to.
type node struct {
	Raw   string // of the value; "" below a value that was edited
	Text  string // of a string
	Names []string
	Kids  []*node
	Kind  byte // of '{', '[', '"' and 'v' for the rest

	gone bool
}

// parse returns the tree of text, nil when that is not JSON.
func parse(text []byte) *node {
	if !json.Valid(text) {
		return nil
	}
	return tree(bytes.TrimSpace(text))
}

func tree(text []byte) *node {
	n := &node{Raw: string(text), Kind: text[0]}
	dec := json.NewDecoder(bytes.NewReader(text))
	switch text[0] {
	case '"':
		_ = json.Unmarshal(text, &n.Text) // valid
	case '{', '[':
		_, _ = dec.Token()
		for dec.More() {
			if text[0] == '{' {
				name, _ := dec.Token()
				n.Names = append(n.Names, name.(string))
			}
			var raw json.RawMessage
			_ = dec.Decode(&raw)
			n.Kids = append(n.Kids, tree(raw))
		}
	default:
		n.Kind = 'v'
	}
	return n
}

// String is what two trees are compared by.
func (n *node) String() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *node) write(b *strings.Builder) {
	switch n.Kind {
	case '"':
		b.WriteString(strconv.Quote(n.Text))
	case 'v':
		b.WriteString(n.Raw)
	default:
		b.WriteByte(n.Kind)
		for i, kid := range n.Kids {
			if kid.gone {
				continue
			}
			if n.Kind == '{' {
				b.WriteString(strconv.Quote(n.Names[i]) + ":")
			}
			kid.write(b)
			b.WriteByte(';')
		}
		b.WriteByte('.')
	}
}

// naive edits the tree of a record as rules say. sure is false when a last-applied
// annotation is no JSON, in which the package may see anything.
func naive(root *node, rules []redact.Rule, key string) (sure bool) {
	n := naively{key: key, sure: true}
	for _, rule := range rules {
		if rule.Preset != "" {
			n.secrets(root, false)
		}
	}
	n.pointers(root, nil, rules)
	return n.sure
}

type naively struct {
	key  string
	sure bool
}

func (n *naively) pointers(v *node, path []string, rules []redact.Rule) {
	for i, kid := range v.Kids {
		if kid.gone {
			continue
		}
		name := strconv.Itoa(i)
		if v.Kind == '{' {
			name = v.Names[i]
		}
		at := slices.Concat(path, []string{name})
		if rule, ok := ruleAt(at, rules); ok {
			n.edit(kid, rule)
			continue
		}
		n.pointers(kid, at, rules)
	}
}

func ruleAt(path []string, rules []redact.Rule) (redact.Rule, bool) {
	for _, rule := range rules {
		segments := strings.Split(rule.Pointer, "/")[1:]
		if rule.Pointer == "" || len(segments) != len(path) {
			continue
		}
		same := true
		for i, s := range segments {
			same = same && (s == "*" || strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~") == path[i])
		}
		if same {
			return rule, true
		}
	}
	return redact.Rule{}, false
}

func (n *naively) edit(v *node, rule redact.Rule) {
	switch rule.Action {
	case redact.Remove:
		v.gone = true
	case redact.Replace:
		*v = node{Kind: '"', Text: rule.With}
	case redact.HMACSHA256:
		plain := v.Raw
		if v.Kind == '"' {
			plain = v.Text
		}
		mac := hmac.New(sha256.New, []byte(n.key))
		mac.Write([]byte(plain))
		*v = node{Kind: '"', Text: "hmac-sha256:" + hex.EncodeToString(mac.Sum(nil))}
	}
}

// members yields those called name.
func (n *node) members(name string, do func(*node)) {
	for i, own := range n.Names {
		if own == name {
			do(n.Kids[i])
		}
	}
}

func (n *node) says(name, text string) (yes bool) {
	n.members(name, func(m *node) { yes = yes || m.Kind == '"' && m.Text == text })
	return yes
}

// lacks reports whether all members called name that are strings say something else.
func (n *node) lacks(name, text string) (yes bool) {
	n.members(name, func(m *node) { yes = yes || m.Kind == '"' })
	return yes && !n.says(name, text)
}

func (n *node) drop(names ...string) {
	for _, name := range names {
		n.members(name, func(m *node) { m.gone = true })
	}
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// secrets drops what the preset drops.
func (n *naively) secrets(v *node, isSecret bool) {
	isList := v.says("kind", "SecretList") && !v.lacks("apiVersion", "v1")
	if isSecret || v.says("kind", "Secret") && !v.lacks("apiVersion", "v1") {
		v.drop("data", "stringData")
		v.members("metadata", func(m *node) {
			m.members("annotations", func(a *node) { a.drop(lastApplied) })
		})
	}
	event := false
	v.members("objectRef", func(ref *node) {
		event = event || ref.says("resource", "secrets") && !ref.lacks("apiGroup", "")
	})
	if event || v.says("resourceKind", "Secret") && !v.lacks("resourceGroup", "") {
		n.event(v)
	}
	if isList {
		v.members("items", n.items)
	}
	v.members(lastApplied, func(a *node) {
		if a.Kind != '"' {
			return
		}
		quoted := parse([]byte(a.Text))
		if quoted == nil {
			n.sure = n.sure && !strings.ContainsAny(a.Text, `{[`)
			return
		}
		before := quoted.String()
		n.secrets(quoted, false)
		a.gone = a.gone || quoted.String() != before
	})
	for _, kid := range v.Kids {
		n.secrets(kid, false)
	}
}

func (n *naively) items(list *node) {
	if list.Kind != '[' {
		return
	}
	for _, item := range list.Kids {
		n.secrets(item, true)
	}
}

func (n *naively) event(v *node) {
	for _, name := range []string{"requestObject", "responseObject", "object", "oldObject"} {
		v.members(name, func(object *node) {
			if object.Kind == '{' {
				n.secrets(object, true)
				object.members("items", n.items)
			}
		})
	}
	for _, name := range []string{"requestObject", "patch"} {
		v.members(name, func(patch *node) {
			if patch.Kind == '[' {
				for _, operation := range patch.Kids {
					operation.drop("value")
				}
			}
		})
	}
	v.members("annotations", func(a *node) {
		for i, name := range a.Names {
			if strings.HasPrefix(name, "patch.webhook.admission.k8s.io/") {
				a.Kids[i].gone = true
			}
		}
	})
}
