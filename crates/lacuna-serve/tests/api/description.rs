//! Models, strategies and the OpenAPI document.

use serde_json::json;

use super::common::{get, router};

#[tokio::test]
async fn models_and_strategies_are_told() {
    let router = router();
    let list = get(&router, "/v1/models").await.json();
    assert_eq!(list["object"], "list");
    assert_eq!(list["data"][0]["id"], "mini");
    assert_eq!(get(&router, "/v1/models/mini").await.json(), list["data"][0]);
    let told = get(&router, "/v1/strategies").await.json();
    assert_eq!(
        told["orders"].as_array().unwrap().len(),
        lacuna::catalogue::parts(lacuna::catalogue::Section::Order).len()
    );
    assert_eq!(told["model"]["mask_token"], 5);
    assert_eq!(told["model"]["recommended"]["strategy"], "dos+eb");
    let eb = told["paces"].as_array().unwrap().iter().find(|pace| pace["name"] == "eb").unwrap();
    assert_eq!(eb["parameters"], json!(["gamma"]));
}

#[tokio::test]
async fn the_description_names_every_field_and_route() {
    let router = router();
    let api = get(&router, "/openapi.json").await.json();
    assert_eq!(api["openapi"].as_str().unwrap().split('.').next(), Some("3"));
    for path in [
        "/v1/completions",
        "/v1/chat/completions",
        "/v1/models",
        "/v1/models/{id}",
        "/v1/probe",
        "/v1/steps",
        "/v1/strategies",
    ] {
        assert!(api["paths"][path].is_object(), "{path}");
    }
    let body = &api["components"]["schemas"]["CompletionBody"];
    assert_eq!(body["additionalProperties"], false);
    for field in ["prompt", "suffix", "text", "gamma", "layer", "logit_bias", "user"] {
        assert!(body["properties"][field].is_object(), "{field}");
    }
}
