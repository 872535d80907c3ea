"""`calibench plot grad-cam`, and the checks of what it names, for which torch is not imported."""

from calibench.analyses.arguments import RunFolders, finished_runs
from calibench.analyses.grad_cam.asked import MapChoice
from calibench.ground.output import loading
from calibench.plots.output import PictureFile, check_kept


def plot_grad_cam(runs: RunFolders, *, output: PictureFile, maps: MapChoice) -> int:
    """Draw where in test images trained networks find evidence for a class (Grad-CAM, Selvaraju et al. 2017).

    A row for each run, a column for each image. The runs need their checkpoints and their data. The pixel of the
    largest evidence of each map is written beside the picture as CSV.

    Args:
        runs: The runs.
        output: The picture.
        maps: Which maps.

    Examples:
        calibench plot grad-cam results/digits_lt -o cam.png
        calibench plot grad-cam RUN --examples 3,7 --class 8 -o cam.png
        calibench plot grad-cam RUN --boxes BBox_List_2017.csv -o cam.png

    A CSV of boxes has a header; a row is image,class,x,y,width,height (later fields, as ChestX-ray14 has them, are left
    out): the name of an image file, or the number of a test image where images have no files, and pixels of that image.
    Then a table says of each run, for every image and class with boxes in the test set: how often the maximum of the
    map lies in a box (pointing game), and how often the box around the region above 20 % of the maximum has an IoU
    above .1, .3 and .5. The CSV beside the picture has these numbers too, of each run and of each image and class.
    """
    check_kept(output, *filter(None, [maps.boxes]))
    finished = finished_runs(runs)
    with loading():
        from calibench.analyses.grad_cam.command import draw
    draw(finished, maps, output)
    return 0
