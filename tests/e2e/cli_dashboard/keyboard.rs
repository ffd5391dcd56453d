//! The dashboard without a mouse, and on paper.

use anyhow::{Result, ensure};
use e2e::{Browser, Key, Namespace, Session, shared};
use serde_json::{Value, json};

use super::{Dashboard, arrange};

/// All elements that keys can reach, in the order of the page.
const REACHED: &str = "window.reached = [...document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), summary, [tabindex=\"0\"]')]
    .filter(it => it.checkVisibility())";
/// The place of the element with the focus among them, and whether a line around it shows the focus.
const FOCUS: &str = "(() => {
    const focus = document.activeElement, style = getComputedStyle(focus);
    return [window.reached.indexOf(focus), style.outlineStyle != 'none' && parseFloat(style.outlineWidth) > 0];
})()";

/// Goes through all elements of a page by the key Tab.
async fn walk(page: &mut Session, url: &str) -> Result<usize> {
    page.open(url).await?;
    // Changes of other tests do not replace what is walked through.
    page.value("document.getElementById('refresh').checked = false")
        .await?;
    let count = page.value(&format!("({REACHED}).length")).await?;
    let count = count.as_u64().unwrap_or(0);
    for place in 0..count {
        page.press(Key::TAB).await?;
        let found = page.value(FOCUS).await?;
        ensure!(
            found == json!([place, true]),
            "{url}: {found} in place of element {place}"
        );
    }
    Ok(count as usize)
}

/// Presses Tab until an element of this selector has the focus.
async fn focus(page: &mut Session, selector: &str) -> Result<()> {
    let matches = format!("document.activeElement.matches({})", json!(selector));
    for _ in 0..50 {
        page.press(Key::TAB).await?;
        if page.value(&matches).await? == json!(true) {
            return Ok(());
        }
    }
    anyhow::bail!("no Tab leads to {selector}")
}

#[tokio::test]
async fn all_of_it_can_be_used_with_keys_alone() -> Result<()> {
    let Some(browser) = Browser::find().await? else {
        return Ok(());
    };
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "keyboard").await?;
    arrange(&own).await?;
    let dashboard = Dashboard::start(&sandbox.kubeconfig(), "").await?;
    let namespace = own.namespace.as_str();
    let home = format!("http://{}/{}", dashboard.host, dashboard.token);
    let mut page = browser.session((1280, 900)).await?;
    for (path, least) in [
        (&*format!("/?namespace={namespace}"), 8),
        (&format!("/vertical?namespace={namespace}"), 8),
        (&format!("/vpa/{namespace}/web"), 8),
        (&format!("/ehpa/{namespace}/front"), 6),
        ("/nodes", 6),
        ("/health", 6),
    ] {
        let count = walk(&mut page, &format!("{home}{path}")).await?;
        ensure!(count >= least, "{path}: {count} elements");
    }

    page.open(&format!("{home}/")).await?;
    focus(&mut page, "nav a[href$='/vertical']").await?;
    page.press_to_load(Key::ENTER).await?;
    focus(&mut page, "#refresh").await?;
    page.press(Key::SPACE).await?;
    let is_refreshed = page
        .value("document.getElementById('refresh').checked")
        .await?;
    ensure!(is_refreshed == json!(false), "{is_refreshed}");
    focus(&mut page, "input[name=namespace]").await?;
    page.write(namespace).await?;
    page.press_to_load(Key::ENTER).await?;
    let query = page.value("location.search").await?;
    ensure!(
        query == json!(format!("?namespace={namespace}&search=")),
        "{query}"
    );
    focus(&mut page, "td a").await?;
    page.press_to_load(Key::ENTER).await?;
    let title = page.value("document.title").await?;
    ensure!(title == json!(format!("{namespace}/web")), "{title}");

    let paint = "new Promise(done => requestAnimationFrame(() => setTimeout(() =>
        done(performance.getEntriesByName('first-contentful-paint')[0]?.startTime), 100)))";
    page.open(&format!("{home}/?namespace={namespace}")).await?;
    let paint = page.value(paint).await?;
    println!("first paint of the overview after {paint} ms");
    page.use_paper().await?;
    let hidden =
        "[...document.querySelectorAll('nav, button')].map(it => getComputedStyle(it).display)";
    let hidden = page.value(hidden).await?;
    let hidden: Vec<&Value> = hidden.as_array().into_iter().flatten().collect();
    ensure!(
        !hidden.is_empty() && hidden.iter().all(|it| **it == "none"),
        "{hidden:?}"
    );
    ensure!(page.messages.is_empty(), "{:?}", page.messages);
    Ok(())
}
