//! Scans of several clusters: their containers in one table, and sums by cluster.

use serde_json::json;

use super::document::{Scan, Totals, containers, totals};
use super::{Order, nodes, replicas};
use crate::output::{Document, Row, Table};

/// Version of the JSON of scans. That of one cluster does not name it.
pub(crate) const VERSION: u64 = 1;

/// Tables and JSON of scans with the names of their clusters.
pub(crate) fn fleet(scans: &[(String, Scan)], order: Order) -> Document {
    let of_clusters = |title, table: &dyn Fn(&Scan) -> Option<Table>| {
        let scans = scans.iter();
        let tables = scans.filter_map(|(cluster, scan)| Some((cluster.as_str(), table(scan)?)));
        Table::of_clusters(title, tables)
    };
    let mut main = of_clusters("Containers", &|scan| Some(containers(&scan.containers)));
    let scanned = scans.iter().flat_map(|(_, scan)| &scan.containers);
    let mut rows: Vec<(Row, _)> = main.rows.into_iter().zip(scanned).collect();
    order.sort(&mut rows, |(_, container)| container);
    main.rows = rows.into_iter().map(|(row, _)| row).collect();
    let namespaces = of_clusters("Namespaces", &|scan| {
        let sums: Vec<(&str, &Totals)> = scan.namespaces().collect();
        Some(totals("", &sums))
    });
    let replicas = of_clusters("Replicas", &|scan| {
        scan.replicas.as_deref().map(replicas::table)
    });
    let nodes = of_clusters("Idle nodes", &|scan| scan.nodes.as_ref().map(nodes::table));
    let mut total = Totals::default();
    let mut sums: Vec<(&str, &Totals)> = Vec::new();
    for (cluster, scan) in scans {
        total += scan.total;
        sums.push((cluster, &scan.total));
    }
    sums.push(("total", &total));
    let mut clusters = totals("Clusters", &sums);
    clusters.columns[0] = "Cluster";
    let mut tables = vec![main, namespaces, replicas, nodes];
    tables.retain(|table| !table.columns.is_empty());
    tables.push(clusters);
    let slips = scans.iter().flat_map(|(cluster, scan)| {
        let slips = scan.unit_slips.iter();
        slips.map(move |slip| format!("{cluster}: {slip}"))
    });
    let by_cluster = scans.iter().map(|(cluster, scan)| {
        let mut data = json!(scan);
        data["cluster"] = json!(cluster);
        data
    });
    Document {
        title: "Plimsoll scan".to_owned(),
        tables,
        notes: slips.collect(),
        data: json!({
            "version": VERSION,
            "clusters": by_cluster.collect::<Vec<_>>(),
            "total": total,
        }),
    }
}
