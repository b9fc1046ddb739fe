package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/docket-export/docket/cli/builtin"
	"github.com/docket-export/docket/cli/configcmd"
)

// value is one key of values.yaml.
type value struct {
	key      string
	about    string // its comment
	schema   string // its comment after @schema
	node     *yaml.Node
	children []value
}

// parse returns the keys of a mapping. A key says what it is, or has keys that do.
func parse(node *yaml.Node, prefix string) (list []value, err error) {
	for i := 0; i < len(node.Content); i += 2 {
		key, content := node.Content[i], node.Content[i+1]
		v := value{key: key.Value, node: content}
		_, comment, ok := cutLast(key.HeadComment, "\n\n")
		if !ok {
			comment = key.HeadComment
		}
		var about []string
		for line := range strings.Lines(comment) {
			line = strings.TrimSpace(strings.TrimPrefix(line, "#"))
			if schema, ok := strings.CutPrefix(line, "@schema "); ok {
				v.schema = schema
			} else {
				about = append(about, line)
			}
		}
		v.about = strings.Join(about, " ")
		path := prefix + v.key
		// Flow style is one default, such as that of resources.
		if content.Kind == yaml.MappingNode && content.Style&yaml.FlowStyle == 0 && v.schema != "resources" {
			if v.children, err = parse(content, path+"."); err != nil {
				return nil, err
			}
		} else if v.about == "" && !strings.HasPrefix(path, "config.") {
			return nil, fmt.Errorf("values.yaml: %s has no comment", path)
		}
		list = append(list, v)
	}
	return list, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// shown is the default as the table has it.
func (v value) shown() string {
	if len(v.children) > 0 {
		return ""
	}
	var decoded any
	if err := v.node.Decode(&decoded); err != nil {
		panic(err)
	}
	text, err := json.Marshal(decoded)
	if err != nil {
		panic(err)
	}
	return "`" + string(text) + "`"
}

// shape is a piece of JSON Schema.
type shape = map[string]any

// Sizes and durations as configurations have them, and quantities of Kubernetes.
const (
	sizePattern     = `^([0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?)?$`
	durationPattern = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
)

// object is the schema of an object with these keys, and no other.
func object(values []value) (shape, error) {
	properties := shape{}
	var sections []string // Helm takes null for a key that is not there: templates read these
	for _, v := range values {
		if v.node.Kind == yaml.MappingNode {
			sections = append(sections, v.key)
		}
		s, err := v.shape()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.key, err)
		}
		if v.about != "" {
			s["description"] = v.about
		}
		properties[v.key] = s
	}
	s := shape{"type": "object", "additionalProperties": false, "properties": properties}
	if len(sections) > 0 {
		s["required"] = sections
	}
	return s, nil
}

// shape is the schema of one key: that of its default, and what @schema adds.
func (v value) shape() (shape, error) {
	size := shape{"type": []any{"string", "integer"}, "pattern": sizePattern}
	switch v.schema {
	case "Exporter":
		return exporterShape()
	case "Tap":
		return tapShape()
	case "size":
		return shape{"type": "string", "pattern": sizePattern}, nil
	case "duration":
		return shape{"type": "string", "pattern": durationPattern}, nil
	case "resources":
		amounts := shape{"type": "object", "properties": shape{"memory": size}}
		return shape{"type": "object", "additionalProperties": false, "properties": shape{
			"limits": amounts, "requests": amounts, "claims": shape{"type": "array"},
		}}, nil
	}
	s := shape{}
	switch {
	case len(v.children) > 0:
		var err error
		if s, err = object(v.children); err != nil {
			return nil, err
		}
	case v.node.Kind == yaml.MappingNode:
		s["type"] = "object"
	case v.node.Kind == yaml.SequenceNode:
		s["type"] = "array"
	default:
		s["type"] = map[string]string{"!!str": "string", "!!int": "integer", "!!bool": "boolean", "!!null": "null"}[v.node.Tag]
	}
	if v.schema == "" {
		return s, nil
	}
	more := shape{}
	if err := yaml.Unmarshal([]byte(v.schema), &more); err != nil {
		return nil, fmt.Errorf("@schema %s: %w", v.schema, err)
	}
	maps.Copy(s, more)
	return s, nil
}

// exporterShape is the schema of docket's own configuration, where the chart fills in what
// is the same in each pod. What is missing it refuses in words of its own.
func exporterShape() (shape, error) {
	s, err := docketShape("else")
	if err != nil {
		return nil, err
	}
	delete(s, "required")
	properties := s["properties"].(shape)
	delete(properties["queue"].(shape), "required")
	delete(properties["sources"].(shape), "minItems")
	delete(properties["sinks"].(shape), "minItems")
	return s, nil
}

// tapShape is the same of the configuration of tap, without the keys that a pod decides.
func tapShape() (shape, error) {
	s, err := docketShape("then")
	if err != nil {
		return nil, err
	}
	delete(s, "required")
	properties := s["properties"].(shape)
	delete(properties["upstream"].(shape), "required")
	docket := properties["docket"].(shape)
	delete(docket, "required")
	for _, key := range []string{"listen", "tlsDir", "metrics"} {
		delete(properties, key)
	}
	for _, key := range []string{"address", "tls"} {
		delete(docket["properties"].(shape), key)
	}
	return s, nil
}

// docketShape is a branch of the schema that docket config prints.
func docketShape(branch string) (s shape, err error) {
	text, err := json.Marshal(configcmd.Schema(builtin.Kinds())[branch])
	if err != nil {
		return nil, err
	}
	return s, json.Unmarshal(text, &s)
}

func sorted(s shape) []string { return slices.Sorted(maps.Keys(s)) }
