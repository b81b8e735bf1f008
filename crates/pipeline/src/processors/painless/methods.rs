//! Methods that scripts may call, by name and number of arguments.

/// Method of a text, list, map or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Contains,
    StartsWith,
    EndsWith,
    Length,
    ToLowerCase,
    ToUpperCase,
    Substring,
    IndexOf,
    LastIndexOf,
    Replace,
    SplitOnToken,
    Trim,
    IsEmpty,
    Equals,
    EqualsIgnoreCase,
    CharAt,
    Concat,
    CompareTo,
    ToText,
    Size,
    Add,
    AddAll,
    Get,
    GetOrDefault,
    Set,
    Remove,
    Clear,
    ContainsKey,
    ContainsValue,
    Put,
    PutIfAbsent,
    PutAll,
    KeySet,
    Values,
    EntrySet,
    GetKey,
    GetValue,
    IntValue,
    LongValue,
    DoubleValue,
}

/// Names, with the least and the greatest number of arguments.
const METHODS: &[(&str, Method, usize, usize)] = &[
    ("contains", Method::Contains, 1, 1),
    ("startsWith", Method::StartsWith, 1, 1),
    ("endsWith", Method::EndsWith, 1, 1),
    ("length", Method::Length, 0, 0),
    ("getLength", Method::Length, 0, 0),
    ("toLowerCase", Method::ToLowerCase, 0, 0),
    ("toUpperCase", Method::ToUpperCase, 0, 0),
    ("substring", Method::Substring, 1, 2),
    ("indexOf", Method::IndexOf, 1, 2),
    ("lastIndexOf", Method::LastIndexOf, 1, 1),
    ("replace", Method::Replace, 2, 2),
    ("splitOnToken", Method::SplitOnToken, 1, 2),
    ("trim", Method::Trim, 0, 0),
    ("isEmpty", Method::IsEmpty, 0, 0),
    ("equals", Method::Equals, 1, 1),
    ("equalsIgnoreCase", Method::EqualsIgnoreCase, 1, 1),
    ("charAt", Method::CharAt, 1, 1),
    ("concat", Method::Concat, 1, 1),
    ("compareTo", Method::CompareTo, 1, 1),
    ("toString", Method::ToText, 0, 0),
    ("size", Method::Size, 0, 0),
    ("add", Method::Add, 1, 2),
    ("addAll", Method::AddAll, 1, 1),
    ("get", Method::Get, 1, 1),
    ("getOrDefault", Method::GetOrDefault, 2, 2),
    ("set", Method::Set, 2, 2),
    ("remove", Method::Remove, 1, 1),
    ("clear", Method::Clear, 0, 0),
    ("containsKey", Method::ContainsKey, 1, 1),
    ("containsValue", Method::ContainsValue, 1, 1),
    ("put", Method::Put, 2, 2),
    ("putIfAbsent", Method::PutIfAbsent, 2, 2),
    ("putAll", Method::PutAll, 1, 1),
    ("keySet", Method::KeySet, 0, 0),
    ("values", Method::Values, 0, 0),
    ("entrySet", Method::EntrySet, 0, 0),
    ("getKey", Method::GetKey, 0, 0),
    ("getValue", Method::GetValue, 0, 0),
    ("intValue", Method::IntValue, 0, 0),
    ("longValue", Method::LongValue, 0, 0),
    ("doubleValue", Method::DoubleValue, 0, 0),
];

impl Method {
    /// Returns a method by name and number of arguments.
    pub(super) fn parse(name: &str, arguments: usize) -> Option<Self> {
        let found = METHODS.iter().find(|(known, _, _, _)| *known == name);
        found
            .filter(|(_, _, min, max)| (*min..=*max).contains(&arguments))
            .map(|(_, method, _, _)| *method)
    }

    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        METHODS
            .iter()
            .find(|(_, method, _, _)| *method == self)
            .map_or("", |(name, _, _, _)| name)
    }
}
