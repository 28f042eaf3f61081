def draw_averages(study):
    table = study.table("averages", "n", "error")
    page = new_page(study, [(1, False, [])], notes=["Error of running sums."])
    curve(page.axes[0], column(table.rows, "n"), column(table.rows, "error"), STYLES[0])
    page.axes[0].set_xlabel("n")
    page.axes[0].set_ylabel("error")
    return page.finish()
